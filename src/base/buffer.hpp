// buffer.hpp: aligned memory that is not initialised and never grows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "base/error.hpp"

namespace weir {

/// `size` elements of a trivial T, aligned to a cache line, uninitialised. Owned; movable.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t size) : size_(size) {
    if (size == 0) return;
    data_.reset(static_cast<T*>(::operator new(static_cast<std::size_t>(size) * sizeof(T), alignment, std::nothrow)));
    if (!data_) fail(WEIR_ERR_MEMORY, "out of memory: a buffer of {} bytes cannot be had", static_cast<std::size_t>(size) * sizeof(T));
  }
  [[nodiscard]] T* data() noexcept { return data_.get(); }
  [[nodiscard]] const T* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return size_ * static_cast<std::int64_t>(sizeof(T)); }
  T& operator[](std::int64_t i) noexcept { return data_.get()[i]; }
  const T& operator[](std::int64_t i) const noexcept { return data_.get()[i]; }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(T* p) const noexcept { ::operator delete(p, alignment); }
  };
  std::unique_ptr<T, Free> data_;
  std::int64_t size_ = 0;
};

}  // namespace weir
