// scratch.hpp: memory that runs use in turns, so that it stays in the caches.
#pragma once

#include "base/buffer.hpp"

namespace weir {

/// For what a run does from one suspension to the next: what it leaves here is lost at the next one. Whoever uses it is inside its
/// communicator.
class Scratch {
 public:
  /// From now on there are so many bytes. Throws Error(WEIR_ERR_MEMORY).
  void reserve(std::int64_t bytes) {
    if (bytes > memory_.size()) memory_ = Buffer<std::byte>(bytes);
  }
  /// Until the next reserve().
  [[nodiscard]] std::byte* data() noexcept { return memory_.data(); }

 private:
  Buffer<std::byte> memory_;
};

}  // namespace weir
