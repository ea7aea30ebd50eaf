#include "bootstrap/socket.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "base/error.hpp"

namespace weir::bootstrap {
namespace {

constexpr std::size_t longest_line = 1 << 16;

std::string text_of(int error) { return std::generic_category().message(error); }

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1 << 30));
}

/// Finds out within a minute that the other node has no power or network any more.
void watch_connection(int descriptor) {
  const auto set = [descriptor](int level, int option, int value) { setsockopt(descriptor, level, option, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 50000);
}

const sockaddr* pointer_to(const std::string& storage) { return reinterpret_cast<const sockaddr*>(storage.data()); }

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string written(const sockaddr* address, std::size_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(address, static_cast<socklen_t>(size), host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return fmt::format(fmt::runtime(address->sa_family == AF_INET6 ? "[{}]:{}" : "{}:{}"), host.data(), port.data());
}

/// Listens on one address. Returns a closed descriptor, and errno in `error`, if that cannot be done.
Descriptor listen_on(const Address& address, int& error) {
  const sockaddr* const where = pointer_to(address.storage);
  Descriptor made(socket(where->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1, off = 0;
  if (made) {
    setsockopt(*made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // a job that starts again finds its old port free
    if (where->sa_family == AF_INET6) setsockopt(*made, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(*made, where, static_cast<socklen_t>(address.storage.size())) == 0 && listen(*made, SOMAXCONN) == 0) return made;
  }
  error = errno;
  return Descriptor();
}

Address any_address(int family, int port) {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  std::string storage = family == AF_INET6 ? std::string(reinterpret_cast<const char*>(&six), sizeof six)
                                           : std::string(reinterpret_cast<const char*>(&four), sizeof four);
  return {std::move(storage), fmt::format("all addresses, port {}", port)};
}

}  // namespace

bool Lines::receive(int descriptor) {
  text_.erase(0, std::exchange(begin_, 0));
  std::array<char, 65536> part;
  ssize_t got = -1;
  do {
    got = recv(descriptor, part.data(), part.size(), MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
  text_.append(part.data(), static_cast<std::size_t>(got));
  const std::size_t end = text_.rfind('\n');
  return got > 0 && text_.size() - (end == std::string::npos ? 0 : end) <= longest_line;
}

std::optional<std::string_view> Lines::next() {
  const std::size_t end = text_.find('\n', begin_);
  if (end == std::string::npos) return std::nullopt;
  const std::string_view line(text_.data() + begin_, end - begin_);
  begin_ = end + 1;
  return line;
}

bool send_all(int descriptor, std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t sent = send(descriptor, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      pollfd one{descriptor, POLLOUT, 0};
      poll(&one, 1, 1000);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::pair<Descriptor, Descriptor> connected_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    fail(WEIR_ERR_TRANSPORT, "a pair of sockets cannot be made: {}", text_of(errno));
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

Listener listen_for(const std::string& name, int first, int last, bool one_node) {
  std::string problems;
  for (int port = first; port <= last; ++port) {
    std::string problem;
    std::vector<Address> addresses = resolve(name, port, problem);
    const bool loopback = std::all_of(addresses.begin(), addresses.end(),
                                      [](const Address& address) { return is_loopback(pointer_to(address.storage)); });
    // A name that the system resolves to its own loopback address means another address elsewhere.
    in_addr four;
    in6_addr six;
    const bool numeric = inet_pton(AF_INET, name.c_str(), &four) == 1 || inet_pton(AF_INET6, name.c_str(), &six) == 1;
    Listener made;
    int error = 0;
    bool elsewhere = true;
    if (!loopback || one_node || numeric || name == "localhost") {
      for (const Address& address : addresses) {
        Descriptor listening = listen_on(address, error);
        if (listening) {
          made.where += (made.where.empty() ? "" : " and ") + address.text;
          made.sockets.push_back(std::move(listening));
        }
        if (error != EADDRNOTAVAIL) elsewhere = false;
      }
    }
    if (elsewhere && made.sockets.empty()) {
      for (const int family : {AF_INET6, AF_INET}) {
        const Address any = any_address(family, port);
        Descriptor listening = listen_on(any, error);
        if (!listening) continue;
        made.where = any.text + (problem.empty() ? "" : " (" + problem + ")");
        made.sockets.push_back(std::move(listening));
        break;
      }
    }
    if (!made.sockets.empty()) return made;
    problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ", port, text_of(error));
  }
  fail(WEIR_ERR_TRANSPORT,
       "rank 0 cannot listen for the other ranks at {}, on no port from {} to {} ({}): choose others with WEIR_PORTS, the same on "
       "all "
       "ranks",
       name, first, last, problems);
}

Descriptor accept_from(const Descriptor& listening) {
  Descriptor made(accept4(*listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made) watch_connection(*made);
  return made;
}

std::vector<Address> resolve(const std::string& name, int port, std::string& problem) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), std::to_string(port).c_str(), &hints, &found);
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  std::vector<Address> addresses;
  if (error != 0) problem = fmt::format("the name {} cannot be resolved: {}", name, gai_strerror(error));
  for (const addrinfo* one = error == 0 ? found : nullptr; one != nullptr; one = one->ai_next)
    addresses.push_back({{reinterpret_cast<const char*>(one->ai_addr), one->ai_addrlen}, written(one->ai_addr, one->ai_addrlen)});
  return addresses;
}

Descriptor connect_to(const Address& address, double seconds, std::string& problem) {
  const sockaddr* const where = pointer_to(address.storage);
  Descriptor made(socket(where->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = made ? 0 : errno;
  if (made && connect(*made, where, static_cast<socklen_t>(address.storage.size())) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      pollfd one{*made, POLLOUT, 0};
      const int ready = poll(&one, 1, static_cast<int>(seconds * 1000));
      socklen_t size = sizeof error;
      if (ready == 1)
        getsockopt(*made, SOL_SOCKET, SO_ERROR, &error, &size);
      else
        error = ETIMEDOUT;
    }
  }
  if (error != 0) {
    problem = fmt::format("{}: {}", address.text, text_of(error));
    return Descriptor();
  }
  watch_connection(*made);
  return made;
}

bool wait_to_read(int descriptor, Clock::time_point deadline) noexcept {
  pollfd one{descriptor, POLLIN, 0};
  while (true) {
    const int ready = poll(&one, 1, milliseconds_until(deadline));
    if (ready >= 0 || errno != EINTR) return ready == 1;
  }
}

std::vector<std::string> interface_names() {
  struct if_nameindex* const all = if_nameindex();
  std::vector<std::string> names;
  for (const auto* one = all; one != nullptr && one->if_index != 0; ++one) names.emplace_back(one->if_name);
  if (all != nullptr) if_freenameindex(all);
  return names;
}

std::string interface_by_route(const Address& towards) {
  const sockaddr* const where = pointer_to(towards.storage);
  const Descriptor made(socket(where->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (!made || connect(*made, where, static_cast<socklen_t>(towards.storage.size())) != 0 ||
      getsockname(*made, address, &size) != 0)
    return "";
  if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) || is_loopback(address)) return "";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> list(all, &freeifaddrs);
  const auto host = [](const sockaddr* of) {
    return of->sa_family == AF_INET
               ? std::string(reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in*>(of)->sin_addr), sizeof(in_addr))
               : std::string(reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6*>(of)->sin6_addr),
                             sizeof(in6_addr));
  };
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == address->sa_family && host(one->ifa_addr) == host(address))
      return one->ifa_name;
  }
  return "";
}

}  // namespace weir::bootstrap
