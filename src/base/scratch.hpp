// scratch.hpp: memory that runs use in turns, so that it stays in the caches.
#pragma once

#include "base/buffer.hpp"

namespace weir {

/// Memory for a run between two suspensions: at the next one, its contents are lost. Only for who is inside the communicator.
class Scratch {
 public:
  /// Afterwards there are at least so many bytes; what was in them is lost. Throws Error(WEIR_ERR_MEMORY).
  void reserve(std::int64_t bytes) {
    if (bytes > memory_.size()) memory_ = Buffer<std::byte>(bytes);
  }
  /// Until the next reserve().
  [[nodiscard]] std::byte* data() noexcept { return memory_.data(); }

 private:
  Buffer<std::byte> memory_;
};

}  // namespace weir
