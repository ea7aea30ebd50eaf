#include "support/counted_new.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t usual_alignment = alignof(std::max_align_t);
thread_local std::int64_t live = 0, largest = no_limit;

/// Stores the size before the memory, at a distance that keeps its alignment.
void* take(std::size_t bytes, std::size_t alignment) {
  if (bytes > static_cast<std::size_t>(largest)) return nullptr;
  void* const begin = std::aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment);
  if (begin == nullptr) return nullptr;
  live += static_cast<std::int64_t>(bytes);
  std::byte* const memory = static_cast<std::byte*>(begin) + alignment;
  reinterpret_cast<std::size_t*>(memory)[-1] = bytes;
  return memory;
}

void give_back(void* memory, std::size_t alignment) {
  if (memory == nullptr) return;
  live -= static_cast<std::int64_t>(static_cast<std::size_t*>(memory)[-1]);
  std::free(static_cast<std::byte*>(memory) - alignment);
}

}  // namespace

void* operator new(std::size_t bytes) {
  if (void* memory = take(bytes, usual_alignment)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return take(bytes, usual_alignment); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  if (void* memory = take(bytes, static_cast<std::size_t>(alignment))) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory, usual_alignment); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory, usual_alignment); }
void operator delete(void* memory, std::align_val_t alignment) noexcept { give_back(memory, static_cast<std::size_t>(alignment)); }
void operator delete(void* memory, std::size_t, std::align_val_t alignment) noexcept {
  give_back(memory, static_cast<std::size_t>(alignment));
}

namespace weir::test {

std::int64_t live_bytes_of_this_thread() { return live; }

LargestAllocation::LargestAllocation(std::int64_t bytes) { largest = bytes; }
LargestAllocation::~LargestAllocation() { largest = no_limit; }

}  // namespace weir::test
