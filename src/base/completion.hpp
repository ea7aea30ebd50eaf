// completion.hpp: what a run can wait for besides messages: work on a GPU, or ranks that share memory with this one.
#pragma once

#include <string>

#include "base/give_way.hpp"

namespace weir {

class Completion {
 public:
  Completion() = default;
  virtual ~Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  /// Returns whether it has been reached, without waiting. Throws Error if it never will be.
  [[nodiscard]] virtual bool reached() = 0;
  /// Does the same, and may keep looking for a few microseconds.
  [[nodiscard]] virtual bool reached_soon() { return reached(); }
  /// Returns whether other ranks bring it about: if one of them breaks off, it will never be reached.
  [[nodiscard]] virtual bool awaits_peers() const noexcept { return false; }
  /// Returns a rank that has not brought it about yet, or the last one that has, once it is reached; -1 if not known.
  [[nodiscard]] virtual int awaited_rank() const noexcept { return -1; }
  /// Gives it up, since this rank's run has failed: it stays unreached on ranks that have not seen it reached yet.
  virtual void abandon() noexcept {}
  /// Gives the core to others, for a caller that waits for nothing else. Returns at the latest after half a millisecond.
  virtual void idle() noexcept { give_way(); }
  /// Returns what is being waited for, for dumps.
  [[nodiscard]] virtual std::string describe() const { return "the GPU"; }
};

}  // namespace weir
