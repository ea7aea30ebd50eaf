// read_ahead.hpp: whether selection fetches memory ahead of its loads. On some processors that gains a fifth, on others it costs a
// fifth. Results are the same.
#pragma once

#include <cstdint>
#include <string>

namespace weir::kernels::host {

/// Switches reading ahead on or off for the whole process. Without this call, the first selections from arrays larger than any
/// cache are timed, alternately with and without it, and the faster way stays. Thread-safe.
void set_read_ahead(bool on) noexcept;

/// Returns a text such as "on: with it, selection takes 0.83 x the time".
[[nodiscard]] std::string read_ahead_text();

/// Returns what has been set or found out, for kernels that are not timed.
[[nodiscard]] bool selects_ahead() noexcept;

/// Decides how one call of a selecting kernel works, and times it until the decision is made.
class ReadAheadTurn {
 public:
  /// `bytes`: the number of bytes that the call reads.
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
