#include "support/failing_allocations.hpp"

#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

thread_local std::int64_t allocations = 0;
thread_local std::int64_t first_to_fail = never, last_to_fail = never;
thread_local bool has_failed = false;

bool fails() {
  ++allocations;
  const bool failing = allocations >= first_to_fail && allocations <= last_to_fail;
  has_failed |= failing;
  return failing;
}

void* allocate(std::size_t bytes) { return fails() ? nullptr : std::malloc(bytes == 0 ? 1 : bytes); }

void* allocate(std::size_t bytes, std::align_val_t alignment) {
  const auto a = static_cast<std::size_t>(alignment);
  return fails() ? nullptr : std::aligned_alloc(a, bytes == 0 ? a : (bytes + a - 1) / a * a);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The forms for arrays call these.
void* operator new(std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return or_throw(allocate(bytes, alignment)); }
void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(bytes, alignment);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace weir::test {

FailingAllocations::FailingAllocations(std::int64_t nth, Failing how) {
  has_failed = false;
  first_to_fail = allocations + nth;
  last_to_fail = how == Failing::once ? first_to_fail : never;
}

void FailingAllocations::stop() { first_to_fail = last_to_fail = never; }
bool FailingAllocations::failed() const { return has_failed; }

std::int64_t allocations_of_this_thread() { return allocations; }

}  // namespace weir::test
