// socket.hpp: TCP connections that carry lines of text.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/descriptor.hpp"

namespace weir::bootstrap {

using Clock = std::chrono::steady_clock;

/// Collects what has arrived, and gives it line by line.
class Lines {
 public:
  /// Reads what is there, at most 64 KiB, without waiting. Returns false at the end of the connection, or if a line is longer than
  /// any of ours.
  [[nodiscard]] bool receive(int descriptor);
  /// Returns the next whole line, without its end. Valid until the next call.
  [[nodiscard]] std::optional<std::string_view> next();

 private:
  std::string text_;
  std::size_t begin_ = 0;
};

/// Sends `text`, and waits until the system has taken it all. Returns false if the connection has ended.
bool send_all(int descriptor, std::string_view text) noexcept;

/// Two ends of a connection within the process.
[[nodiscard]] std::pair<Descriptor, Descriptor> connected_pair();

/// The sockets of rank 0 on one port.
struct Listener {
  std::vector<Descriptor> sockets{};
  std::string where{};  ///< addresses and port, for texts
};

/// Listens on the first port from `first` to `last` that is free, on those addresses of `name` that are this host's. If there are
/// none, as behind a Kubernetes service, or only loopback ones although `one_node` is false, as with Debian's 127.0.1.1, listens on
/// all addresses. Throws Error(WEIR_ERR_TRANSPORT) that names each port and why it cannot be had.
[[nodiscard]] Listener listen_for(const std::string& name, int first, int last, bool one_node);

/// Accepts a connection. Returns a closed descriptor if nobody waits for one.
[[nodiscard]] Descriptor accept_from(const Descriptor& listening);

/// An address of a server.
struct Address {
  std::string storage;  ///< a sockaddr
  std::string text;     ///< as people write it, with the port
};

/// Resolves a name. Returns no addresses and sets `problem` if it cannot be resolved now.
[[nodiscard]] std::vector<Address> resolve(const std::string& name, int port, std::string& problem);

/// Connects within `seconds`. Returns a closed descriptor and sets `problem` if that fails.
[[nodiscard]] Descriptor connect_to(const Address& address, double seconds, std::string& problem);

/// Waits until the descriptor can be read, or until `deadline`. Returns whether it can be read.
[[nodiscard]] bool wait_to_read(int descriptor, Clock::time_point deadline) noexcept;

/// Returns the names of this host's network interfaces.
[[nodiscard]] std::vector<std::string> interface_names();

/// Returns the network interface from which this host sends to the address; empty for loopback, and without a route. Sends nothing.
[[nodiscard]] std::string interface_by_route(const Address& address);

}  // namespace weir::bootstrap
