// completion.hpp: what a run can wait for besides messages: work on a GPU, or other ranks' writes to shared memory.
#pragma once

#include <string>

namespace weir {

class Completion {
 public:
  Completion() = default;
  virtual ~Completion() = default;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  /// Returns whether it has been reached, without waiting. Throws Error if it never will be.
  [[nodiscard]] virtual bool reached() = 0;
  /// Returns whether other ranks reach it, and may break off before.
  [[nodiscard]] virtual bool awaits_ranks() const noexcept { return false; }
  /// Returns what is being waited for, for dumps.
  [[nodiscard]] virtual std::string describe() const { return "the GPU"; }
};

}  // namespace weir
