// server.hpp: brings the processes of a job together: rank 0's side.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bootstrap/launch.hpp"
#include "bootstrap/socket.hpp"

namespace weir::bootstrap {

/// What a process says of itself in its first line.
struct Hello {
  std::string job{};
  int rank = 0;
  int size = 0;
  std::string version{};  ///< Weir's
  long process = 0;
  std::string host{};
  std::string node{};     ///< the same for processes that share memory
  bool fast = false;      ///< its host has a network that is faster than TCP
  std::string problem{};  ///< why it cannot take part; empty if it can

  [[nodiscard]] std::string line() const;
  /// Returns false if the line is something else.
  [[nodiscard]] static bool read(std::string_view line, Hello& hello);
};

/// Returns which ranks share a node, in the form of PMI's PMI_process_mapping: "(vector,(0,2,4))" for 4 ranks on each of 2 nodes
/// from node 0. `nodes` has the node of each rank.
[[nodiscard]] std::string process_mapping(const std::vector<std::string>& nodes);

/// Gathers the processes of a job, passes keys between them at barriers, and says who has ended. Has a thread of its own.
///
/// A connection carries lines. A process sends its Hello, then any number of
///     started            MPI_Init has returned
///     put KEY VALUE      a key for all processes
///     barrier            waits for all
///     finalize           it will send no more
///     abort CODE TEXT    all processes are to end
/// and gets
///     wait               the server has counted it
///     other              this is the server of another job
///     refused TEXT       the job cannot start
///     go NAME MAPPING NETWORK ROOT   all have come; the name is unique to this job, NETWORK is "fast" if a host has a fast one,
///                        else "tcp", and ROOT says where rank 0 is
///     key KEY VALUE      of each key that was put before the barrier, then
///     out                all have reached the barrier
///     lost RANK TEXT     the process has ended without finalize
///     abort CODE TEXT
///
/// A barrier sends each process all new keys at once, so that a key costs no round trip of its own.
class Server {
 public:
  /// `timeout_seconds`: how long it waits for processes to come. `own`: what rank 0's own process would say; others must agree.
  Server(Listener listener, Hello own, double timeout_seconds);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Ends the thread. Connections end with it.
  ~Server();

  /// Returns this process's own connection. Call it once.
  [[nodiscard]] Descriptor own_connection() { return std::move(own_end_); }
  /// Waits until every process has left, or has heard that the job cannot start; at most `seconds`.
  void wait_until_left(double seconds) const;
  /// Before a fork(): waits until the thread changes nothing. Then, in the parent, let_go(), and in the child close_in_child(),
  /// which closes all descriptors, because no thread serves them there.
  void hold() noexcept { busy_.lock(); }
  void let_go() noexcept { busy_.unlock(); }
  void close_in_child() noexcept;

 private:
  struct Client;
  enum class Stage { gathering, running, refusing };

  void loop();
  void accept_all(const Descriptor& listening);
  void read(Client& client);
  void take(Client& client, std::string_view line);
  void greet(Client& client, std::string_view line);
  void start();
  void refuse(const std::string& why);
  void watch_time();
  void sweep();
  void lose(Client& client);
  void finish_barrier();
  void send(Client& client, std::shared_ptr<const std::string> text);
  void send_to_all(const std::string& text, const Client* except = nullptr);
  void flush(Client& client);
  void watch(int descriptor, std::uint32_t events, bool known);
  [[nodiscard]] std::string missing_ranks() const;
  [[nodiscard]] int wait_milliseconds() const;

  Listener listener_;
  const Hello own_;
  const double timeout_seconds_;
  Clock::time_point begin_ = Clock::now();  // of the stage
  double report_;                           // seconds after which to say who is missing
  Stage stage_ = Stage::gathering;
  std::string refusal_;
  std::map<int, std::unique_ptr<Client>> clients_;  // by descriptor
  std::vector<Client*> ranks_;                      // null: has not come, or has ended
  int come_ = 0, started_ = 0;
  int in_barrier_ = 0;
  std::mutex busy_;               // held while the thread works, not while it waits
  std::vector<std::string> log_;  // warnings, logged without the mutex: the program's function may take long
  std::string keys_;              // lines of keys since the last barrier
  std::atomic<int> left_{0};
  Descriptor events_, wake_read_, wake_write_, own_end_;
  std::thread thread_;
};

}  // namespace weir::bootstrap
