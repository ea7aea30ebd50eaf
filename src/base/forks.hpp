// forks.hpp: children of fork(), which have their parent's memory, but neither its threads nor its MPI.
#pragma once

#include <pthread.h>

#include <atomic>

namespace weir {

inline std::atomic<bool> forked_child = false;

/// Makes forked() true in children from now on. Call it before the first use of what children cannot have.
inline void watch_forks() {
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, [] { forked_child = true; });
}
/// Returns whether this process is such a child.
[[nodiscard]] inline bool forked() noexcept { return forked_child.load(std::memory_order_relaxed); }

}  // namespace weir
