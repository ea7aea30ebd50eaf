#include "support/allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
thread_local std::int64_t allocations = 0;
std::atomic<std::int64_t> of_all = 0;

void count() noexcept {
  ++allocations;
  ++of_all;
}

// More than there ever is: malloc would return null, and AddressSanitizer would end the program.
constexpr std::size_t too_many_bytes = std::size_t{1} << 40;

void* allocate(std::size_t bytes) {
  count();
  return bytes < too_many_bytes ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
}
}  // namespace
void* operator new(std::size_t bytes) {
  if (void* memory = allocate(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  count();
  const auto a = static_cast<std::size_t>(alignment);
  return bytes < too_many_bytes ? std::aligned_alloc(a, (bytes + a - 1) / a * a) : nullptr;
}
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

std::int64_t weir::test::allocations_of_this_thread() { return allocations; }
std::int64_t weir::test::allocations_of_all_threads() { return of_all; }
