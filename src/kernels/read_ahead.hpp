// read_ahead.hpp: whether selection fetches memory ahead of its loads. That gains a fifth on some processors and costs a fifth on
// others; results are the same.
#pragma once

#include <cstdint>
#include <string>

namespace weir::kernels::host {

/// For the whole process, from now on. Without it, the first selections from arrays that no cache holds go either way by turns, and
/// are timed; what was faster stays. Thread-safe.
void set_read_ahead(bool on) noexcept;

/// "on: it takes 0.83 x the time", for people.
[[nodiscard]] std::string read_ahead_text();

/// What has been set, or found out: for kernels that are not timed.
[[nodiscard]] bool selects_ahead() noexcept;

/// One call's way, and its time where it counts. For selecting kernels.
class ReadAheadTurn {
 public:
  /// The call goes through so many bytes.
  explicit ReadAheadTurn(std::int64_t bytes) noexcept;
  ReadAheadTurn(const ReadAheadTurn&) = delete;
  ReadAheadTurn& operator=(const ReadAheadTurn&) = delete;
  ~ReadAheadTurn();
  [[nodiscard]] bool on() const noexcept { return on_; }

 private:
  std::int64_t bytes_, begun_ = 0;  // nanoseconds; 0: it does not count
  bool on_ = false;
};

}  // namespace weir::kernels::host
