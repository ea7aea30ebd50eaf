// scratch.hpp: memory that runs use in turns, so that it stays in the caches.
#pragma once

#include "base/buffer.hpp"

namespace weir {

/// Memory for a run between two suspensions: at the next one, its contents are lost. Only a thread inside the communicator may use
/// it.
class Scratch {
 public:
  /// Makes sure that there are at least `bytes`. Their contents are lost. Throws Error(WEIR_ERR_MEMORY).
  void reserve(std::int64_t bytes) {
    if (bytes > memory_.size()) memory_ = Buffer<std::byte>(bytes);
  }
  /// Returns the memory, valid until the next reserve().
  [[nodiscard]] std::byte* data() noexcept { return memory_.data(); }

 private:
  Buffer<std::byte> memory_;
};

}  // namespace weir
