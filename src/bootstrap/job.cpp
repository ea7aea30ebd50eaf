#include "bootstrap/job.hpp"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <thread>

#include "base/at_end.hpp"
#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/host.hpp"
#include "base/origin.hpp"
#include "bootstrap/network.hpp"

namespace weir::bootstrap {
namespace {

constexpr double connect_seconds = 2;  // for one address and port
constexpr double answer_seconds = 30;  // until a server says whether it is ours
constexpr double grace_seconds = 10;   // in which rank 0 may still say who is missing
constexpr double leave_seconds = 10;   // for which rank 0 waits for the others at its end

Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Returns whether there is a /dev/shm that this process can write to.
bool shares_memory() { return access("/dev/shm", W_OK) == 0; }

/// Returns a text that processes have in common if and only if they share memory: containers of one machine may have the same host
/// name, and namespaces the same boot id. Without /dev/shm, each process is a node of its own.
std::string node_name() {
  Fingerprint print;
  print.add(host_name());
  print.add(boot_id());
  struct stat memory {};
  if (shares_memory() && stat("/dev/shm", &memory) == 0) {
    print.add(static_cast<std::uint64_t>(memory.st_dev));
    print.add(static_cast<std::uint64_t>(memory.st_ino));
  } else {
    print.add(static_cast<std::uint64_t>(getpid()));
  }
  return fmt::format("{:016x}", print.value());
}

/// Returns what is wrong with this process's settings; empty if nothing.
std::string problem_with(const Settings& settings) {
  const std::string& name = settings.network_interface;
  if (name.empty()) return "";
  const std::vector<std::string> interfaces = interface_names();
  if (std::find(interfaces.begin(), interfaces.end(), name) != interfaces.end()) return "";
  std::string text = fmt::format("WEIR_INTERFACE is '{}': this host has {}", name, fmt::join(interfaces, ", "));
  std::replace(text.begin(), text.end(), '\n', ' ');  // it becomes part of a line
  return text;
}

/// Opens /dev/null for each of stdin, stdout and stderr that is closed: a socket would take its number.
void fill_standard_descriptors() {
  for (int number = 0; number <= 2; ++number) {
    if (fcntl(number, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;  // it takes the lowest number
  }
}

/// A connection to rank 0's server, and what has arrived on it.
struct Connection {
  Descriptor descriptor{};
  Lines lines{};

  /// Returns the next line; none if the connection ends or the deadline comes first.
  std::optional<std::string> next(Clock::time_point deadline) {
    bool open = true;
    while (true) {
      if (const auto line = lines.next()) return std::string(*line);
      if (!open || !wait_to_read(*descriptor, deadline)) return std::nullopt;
      open = lines.receive(*descriptor);
    }
  }
};

/// Returns the network interface from which this process reaches the address, which may be its own; sends nothing.
std::string interface_towards(const std::string& name, int port) {
  std::string problem;
  for (const Address& address : resolve(name, port, problem)) {
    const std::string interface = interface_by_route(address);
    if (!interface.empty()) return interface;
  }
  return "";
}

constexpr std::string_view refused = "refused ", missing = "refused after ";

[[noreturn]] void fail_refused(std::string_view line) {
  throw Error(line.starts_with(missing) ? WEIR_ERR_TIMEOUT : WEIR_ERR_SETTING, std::string(line.substr(refused.size())));
}

/// Says hello at one address. Returns whether the server there is ours; sets `problem` if not.
bool says_wait(Connection& connection, const Address& address, const std::string& hello, std::string& problem) {
  send_all(*connection.descriptor, hello);
  const std::optional<std::string> answer = connection.next(Clock::now() + duration(answer_seconds));
  if (answer == "wait") return true;
  if (answer && answer->starts_with(refused)) fail_refused(*answer);
  problem =
      address.text + (answer == "other" ? ": another job of Weir listens there" : ": what listens there is no rank 0 of Weir");
  return false;
}

/// Returns the list without what makes it too long to read.
std::string shortened(const std::string& problems) {
  constexpr std::size_t most = 400;
  if (problems.size() <= most) return problems;
  const std::size_t end = problems.rfind("; ", most);
  return problems.substr(0, std::min(end, most)) + "; …";
}

/// Looks for rank 0's server on each port and address, until it is found.
Connection find_server(const Launch& launch, const std::string& hello, double timeout_seconds) {
  const Clock::time_point deadline = Clock::now() + duration(timeout_seconds);
  auto pause = std::chrono::milliseconds(10);
  std::string problems;
  while (Clock::now() < deadline) {
    problems.clear();
    for (int port = launch.first_port; port <= launch.last_port && (port == launch.first_port || Clock::now() < deadline); ++port) {
      std::string problem;
      const std::vector<Address> addresses = resolve(launch.master_address, port, problem);
      for (const Address& address : addresses) {
        Connection connection{connect_to(address, connect_seconds, problem)};
        if (connection.descriptor && says_wait(connection, address, hello, problem)) return connection;
        problems += (problems.empty() ? "" : "; ") + problem;
      }
      if (addresses.empty()) problems = problem;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  }
  fail(WEIR_ERR_TIMEOUT,
       "rank {} of {} on {} has not found rank 0 at {} in {:.0f} s ({}): see that rank 0 was started, that this node reaches "
       "MASTER_ADDR, an address of rank 0's node, and that no firewall closes ports {} to {}",
       launch.rank, launch.size, host_name(), launch.master_address, timeout_seconds, shortened(problems), launch.first_port,
       launch.last_port);
}

void set_unless_there(const char* name, const std::string& value) { setenv(name, value.c_str(), 0); }

Job* current = nullptr;

}  // namespace

Job::Job(const Launch& launch, const Settings& settings) : rank_(launch.rank), size_(launch.size) { join(launch, settings); }

void Job::join(const Launch& launch, const Settings& settings) {
  fill_standard_descriptors();
  const Hello hello{.job = launch.job,
                    .rank = rank_,
                    .size = size_,
                    .version = version_text(),
                    .process = getpid(),
                    .host = host_name(),
                    .node = node_name(),
                    .fast = has_fast_network(),
                    .problem = problem_with(settings)};
  Connection connection;
  if (rank_ == 0) {
    Listener listener = listen_for(launch.master_address, launch.first_port, launch.last_port, launch.one_node);
    server_ = std::make_unique<Server>(std::move(listener), hello, settings.timeout_seconds);
    connection.descriptor = server_->own_connection();
    send_all(*connection.descriptor, hello.line());
    const std::optional<std::string> answer = connection.next(Clock::now() + duration(answer_seconds));
    if (answer && answer->starts_with(refused)) refuse(*answer);
    if (answer != "wait") fail(WEIR_ERR_INTERNAL, "rank 0 has not met itself");
  } else {
    connection = find_server(launch, hello.line(), settings.timeout_seconds);
  }
  const std::optional<std::string> line = connection.next(Clock::now() + duration(settings.timeout_seconds + grace_seconds));
  if (line && line->starts_with(refused)) refuse(*line);
  if (!line || !line->starts_with("go ")) {
    fail(WEIR_ERR_TRANSPORT, "rank 0 on {} has ended before all ranks had come: its own error says why", launch.master_address);
  }
  std::istringstream words(line->substr(3));
  std::string name, mapping, network, root;
  words >> name >> mapping >> network;
  std::getline(words >> std::ws, root);
  one_node_ = mapping == process_mapping(std::vector<std::string>(static_cast<std::size_t>(size_), "here"));
  only_tcp_ = network == "tcp" && !one_node_;
  connections_ = settings.connections;
  interface_ = settings.network_interface;
  interface_chosen_ = !interface_.empty();
  if (!interface_chosen_ && !one_node_) interface_ = interface_towards(launch.master_address, launch.first_port);
  relay_ = std::make_unique<Relay>(std::move(connection.descriptor), std::move(connection.lines), std::move(name),
                                   std::move(mapping), std::move(root), rank_, size_);
  current = this;
  pthread_atfork(
      [] {
        if (current->server_) current->server_->hold();
      },
      [] {
        if (current->server_) current->server_->let_go();
      },
      [] {
        if (current->server_) current->server_->close_in_child();
        current->relay_->close_in_child();
      });
  // Never destroyed: destructors run before what is to be done at the end.
  [[maybe_unused]] static const AtEnd& end = *new AtEnd(End::process, {}, [this](End) {
    finish();
    return false;
  });
}

/// Throws what the server has said, on all ranks.
void Job::refuse(std::string_view line) {
  if (server_ && !line.starts_with(missing)) server_->wait_until_left(leave_seconds);  // those that come later hear it, too
  fail_refused(line);
}

void Job::before_init(std::string_view library_version) {
  forget_launchers();
  setenv("PMI_FD", std::to_string(relay_->descriptor_of_mpi()).c_str(), 1);
  setenv("PMI_RANK", std::to_string(rank_).c_str(), 1);
  setenv("PMI_SIZE", std::to_string(size_).c_str(), 1);
  if (only_tcp_) {
    for (const auto& [name, value] : variables_for_tcp(library_version, connections_)) set_unless_there(name.c_str(), value);
  }
  // libfabric's TCP otherwise takes the first network interface, which may lead nowhere. UCX may have faster networks than TCP.
  if (!interface_.empty()) set_unless_there("FI_TCP_IFACE", interface_);
  if (!shares_memory()) set_unless_there("UCX_TLS", "^posix");  // UCX otherwise fails to start
  if (interface_chosen_) set_unless_there("UCX_NET_DEVICES", interface_);
}

void Job::after_init() {
  relay_->note_start();
  forget_launchers();
  note_started();
}

void Job::finish() noexcept {
  relay_->drain();
  if (server_ && relay_->finalised()) server_->wait_until_left(leave_seconds);
}

}  // namespace weir::bootstrap
