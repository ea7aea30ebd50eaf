// Replaces operator new with one that counts. It is in a file of its own so that it is never inlined next to its uses.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "cli/report.hpp"

namespace {
std::atomic<std::int64_t> allocations{0};
}

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

std::int64_t weir::cli::allocations_so_far() { return allocations.load(std::memory_order_relaxed); }
