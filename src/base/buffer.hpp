// buffer.hpp: aligned memory that is not initialised and never grows.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "base/error.hpp"

namespace weir {

/// Memory for `size` elements of a trivial T, aligned to a cache line (large ones to huge pages), uninitialised. Owned; movable.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t size) : size_(size) {
    if (size == 0) return;
    const std::align_val_t alignment = alignment_of(bytes());
    data_ = {static_cast<T*>(::operator new(static_cast<std::size_t>(bytes()), alignment, std::nothrow)), Free{alignment}};
    if (!data_) fail(WEIR_ERR_MEMORY, "out of memory: a buffer of {} bytes cannot be allocated", bytes());
#ifdef MADV_HUGEPAGE
    // Without huge pages, a pass over a residual spends much of its time on address translation. Advice only: it may fail.
    if (alignment == huge_page) madvise(data_.get(), static_cast<std::size_t>(bytes()), MADV_HUGEPAGE);
#endif
  }
  [[nodiscard]] T* data() noexcept { return data_.get(); }
  [[nodiscard]] const T* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return size_ * static_cast<std::int64_t>(sizeof(T)); }
  T& operator[](std::int64_t i) noexcept { return data_.get()[i]; }
  const T& operator[](std::int64_t i) const noexcept { return data_.get()[i]; }

 private:
  static constexpr std::align_val_t cache_line{64}, huge_page{std::size_t{1} << 21};
  static std::align_val_t alignment_of(std::int64_t bytes) { return bytes >= (std::int64_t{1} << 22) ? huge_page : cache_line; }
  struct Free {
    std::align_val_t alignment{cache_line};
    void operator()(T* p) const noexcept { ::operator delete(p, alignment); }
  };
  std::unique_ptr<T, Free> data_;
  std::int64_t size_ = 0;
};

}  // namespace weir
