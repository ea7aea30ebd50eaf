#include "cli/slow_store.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/splitmix.hpp"
#include "bootstrap/socket.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

constexpr std::int64_t period = 1 << 20;

const std::vector<std::byte>& pattern() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(2 * period);
    for (std::int64_t i = 0; i < 2 * period; ++i)
      made[static_cast<std::size_t>(i)] = static_cast<std::byte>(splitmix64(static_cast<std::uint64_t>(i % period)));
    return made;
  }();
  return bytes;
}

[[noreturn]] void complain(const char* what) { give_up("{}: {}", what, std::strerror(errno)); }

/// An offset and a number of bytes.
using Request = std::array<std::int64_t, 2>;

bool send_all(const Descriptor& to, std::span<const std::byte> bytes) {
  return bootstrap::send_all(*to, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// Returns false if the other side is gone.
bool receive_all(const Descriptor& from, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::recv(*from, bytes.data(), bytes.size(), MSG_WAITALL);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

void serve(const Descriptor& connection) {
  Request request{};
  while (receive_all(connection, std::as_writable_bytes(std::span(request)))) {
    for (std::int64_t at = request[0], left = request[1]; left > 0;) {
      const std::int64_t bytes = std::min(left, period);
      if (!send_all(connection, {pattern().data() + at % period, static_cast<std::size_t>(bytes)})) return;
      at += bytes;
      left -= bytes;
    }
  }
}

}  // namespace

std::byte stored_byte(std::int64_t offset) { return pattern()[static_cast<std::size_t>(offset % period)]; }

StoreServer::StoreServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t length = sizeof any;
  if (!listener_ || ::bind(*listener_, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || ::listen(*listener_, 1024) != 0 ||
      ::getsockname(*listener_, reinterpret_cast<sockaddr*>(&any), &length) != 0)
    complain("the store cannot listen");
  port_ = ntohs(any.sin_port);
  (void)pattern();
  accepting_ = std::thread([this] { accept_all(); });
}

void StoreServer::accept_all() {
  for (;;) {
    Descriptor connection(::accept4(*listener_, nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!connection) return;
    connections_.push_back(std::move(connection));
    threads_.emplace_back([&mine = connections_.back()] { serve(mine); });
  }
}

StoreServer::~StoreServer() {
  ::shutdown(*listener_, SHUT_RDWR);
  accepting_.join();
  for (const Descriptor& connection : connections_) ::shutdown(*connection, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
}

StoreClient::StoreClient(std::string address, int port, std::int64_t samples, std::int64_t record_bytes)
    : address_(std::move(address)), port_(port), samples_(samples), record_bytes_(record_bytes) {}

std::string StoreClient::identity() const { return fmt::format("made-up records: {} of {} bytes", samples_, record_bytes_); }

Descriptor StoreClient::connection() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      Descriptor connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  Descriptor made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port_));
  const int now = 1;
  if (!made || ::inet_pton(AF_INET, address_.c_str(), &to.sin_addr) != 1 ||
      ::connect(*made, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 ||
      ::setsockopt(*made, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now) != 0)
    complain("no connection to the store");
  return made;
}

void StoreClient::read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) {
  encoded.resize(static_cast<std::size_t>(count * record_bytes_));
  const Request request{first * record_bytes_, count * record_bytes_};
  Descriptor at = connection();
  if (!send_all(at, std::as_bytes(std::span(request))) || !receive_all(at, encoded))
    throw std::runtime_error("the store does not answer");
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(at));
  std::fill(sizes.begin(), sizes.end(), record_bytes_);
}

std::string own_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) complain("network addresses");
  std::string found = "127.0.0.1";
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & (IFF_LOOPBACK | IFF_UP)) != IFF_UP)
      continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(), text.size());
    found = text.data();
    break;
  }
  ::freeifaddrs(all);
  return found;
}

}  // namespace weir::cli
