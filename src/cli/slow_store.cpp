#include "cli/slow_store.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/splitmix.hpp"
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

/// Calls send() or recv() until all bytes are through. Returns false if the other side is gone.
template <class Byte, class Call>
bool transfer(Byte* at, std::int64_t bytes, Call call) {
  while (bytes > 0) {
    const ssize_t done = call(at, static_cast<std::size_t>(bytes));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done;
    bytes -= done;
  }
  return true;
}
bool send_all(int to, const void* data, std::int64_t bytes) {
  return transfer(static_cast<const char*>(data), bytes,
                  [to](const char* at, std::size_t left) { return ::send(to, at, left, MSG_NOSIGNAL); });
}
bool receive_all(int from, void* data, std::int64_t bytes) {
  return transfer(static_cast<char*>(data), bytes, [from](char* at, std::size_t left) { return ::recv(from, at, left, 0); });
}

void serve(int connection) {
  std::array<std::int64_t, 2> request{};
  while (receive_all(connection, request.data(), sizeof request)) {
    for (std::int64_t at = request[0], left = request[1]; left > 0;) {
      const std::int64_t bytes = std::min(left, period);
      if (!send_all(connection, pattern().data() + at % period, bytes)) return;
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
  if (listener_ < 0 || ::bind(listener_, reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || ::listen(listener_, 1024) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &length) != 0)
    complain("the store cannot listen");
  port_ = ntohs(any.sin_port);
  (void)pattern();
  accepting_ = std::thread([this] { accept_all(); });
}

void StoreServer::accept_all() {
  for (;;) {
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (connection < 0) return;
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    threads_.emplace_back([connection] { serve(connection); });
  }
}

StoreServer::~StoreServer() {
  ::shutdown(listener_, SHUT_RDWR);
  accepting_.join();
  ::close(listener_);
  for (const int connection : connections_) ::shutdown(connection, SHUT_RDWR);
  for (std::thread& thread : threads_) thread.join();
  for (const int connection : connections_) ::close(connection);
}

StoreClient::StoreClient(std::string address, int port, std::int64_t samples, std::int64_t record_bytes)
    : address_(std::move(address)), port_(port), samples_(samples), record_bytes_(record_bytes) {}

StoreClient::~StoreClient() {
  for (const int connection : idle_) ::close(connection);
}

std::string StoreClient::identity() const { return fmt::format("made-up records: {} of {} bytes", samples_, record_bytes_); }

int StoreClient::connection() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      const int connection = idle_.back();
      idle_.pop_back();
      return connection;
    }
  }
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) complain("no connection to the store");
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port_));
  const int now = 1;
  if (::inet_pton(AF_INET, address_.c_str(), &to.sin_addr) != 1 ||
      ::connect(made, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 ||
      ::setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &now, sizeof now) != 0) {
    ::close(made);
    complain("no connection to the store");
  }
  return made;
}

void StoreClient::read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) {
  encoded.resize(static_cast<std::size_t>(count * record_bytes_));
  const std::array<std::int64_t, 2> request{first * record_bytes_, count * record_bytes_};
  const int at = connection();
  if (!send_all(at, request.data(), sizeof request) || !receive_all(at, encoded.data(), request[1])) {
    ::close(at);
    throw std::runtime_error("the store does not answer");
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(at);
  std::fill(sizes.begin(), sizes.end(), record_bytes_);
}

std::string own_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) complain("network addresses");
  std::string found = "127.0.0.1";
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_LOOPBACK) != 0 ||
        (one->ifa_flags & IFF_UP) == 0)
      continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    if (::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text.data(), text.size()) == nullptr)
      continue;
    found = text.data();
    break;
  }
  ::freeifaddrs(all);
  return found;
}

}  // namespace weir::cli
