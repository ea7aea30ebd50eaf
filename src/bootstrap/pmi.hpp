// pmi.hpp: answers MPI's questions to a process manager, by the wire protocol PMI-1 of MPICH and of all libraries of its ABI.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <thread>

#include "bootstrap/socket.hpp"

namespace weir::bootstrap {

/// Stands between the MPI of this process and the server. Has a thread of its own, which never needs locks of the program, such as
/// Python's. If a process of the job ends while MPI starts, or is waited for in MPI_Finalize, or calls MPI_Abort, prints which, and
/// ends this process: MPI would wait for it for ever. Otherwise records it as lost (base/lost_rank.hpp).
class Relay {
 public:
  /// `server`: the connection after the line "go", with what has arrived on it in `lines`. `name`, `mapping`, `root`: from that
  /// line.
  Relay(Descriptor server, Lines lines, std::string name, std::string mapping, std::string root, int rank, int size);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  /// Ends the thread.
  ~Relay();

  /// Returns MPI's end of the connection, for PMI_FD. It belongs to MPI, which uses it until MPI_Finalize.
  [[nodiscard]] int descriptor_of_mpi() const noexcept { return mpi_end_; }
  /// Notes that MPI_Init has returned.
  void note_start() noexcept;
  /// Returns whether MPI_Finalize has said that it is done.
  [[nodiscard]] bool finalised() const noexcept { return finalised_; }
  /// Waits until what MPI has written is on its way, at the end of the process: MPI_Abort ends it at once.
  void drain() noexcept;
  /// Closes all descriptors in a child of fork(): the server would not see the end of this process otherwise.
  void close_in_child() noexcept;

 private:
  void loop();
  void answer(std::string_view line);
  void hear(std::string_view line);
  void lose(std::string_view text);
  void reply(std::string_view text) noexcept { send_all(*here_, text); }
  [[noreturn]] void end_process(std::string_view text, int code) noexcept;

  Descriptor server_, here_, wake_read_, wake_write_;
  int mpi_end_ = -1;
  Lines from_server_, from_mpi_{};
  const std::string name_, root_;
  const int rank_, size_;
  std::map<std::string, std::string, std::less<>> keys_;
  std::string lost_;
  std::atomic<bool> starting_{true}, finalised_{false};
  std::atomic<long> drained_{0};  // how often the thread has taken all that MPI had written
  bool in_barrier_ = false;
  std::thread thread_;
};

}  // namespace weir::bootstrap
