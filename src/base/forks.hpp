// forks.hpp: children of fork(), which have their parent's memory, but neither its threads nor its MPI.
#pragma once

#include <pthread.h>

#include <atomic>

namespace weir {

inline std::atomic<bool> forked_child = false;

/// From now on forked() is true in children. Before the first use of what these cannot have.
inline void watch_forks() {
  [[maybe_unused]] static const int watched = pthread_atfork(nullptr, nullptr, [] { forked_child = true; });
}
/// Whether this process is such a child.
[[nodiscard]] inline bool forked() noexcept { return forked_child.load(std::memory_order_relaxed); }

}  // namespace weir
