// cuda_kernel_set.hpp: the kernels for CUDA memory with the signatures of the host's. Copies arrays to the device and back.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/cuda_kernels.hpp"

namespace weir::test {

inline void require_cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

/// Holds `count` elements of `host` in device memory, with the same misalignment, between guards. Arrays that are not const are
/// copied back.
template <class V>
class OnDevice {
 public:
  OnDevice(V* host, std::int64_t count)
      : host_(host),
        bytes_(static_cast<std::size_t>(count) * sizeof(V)),
        offset_(guard + reinterpret_cast<std::uintptr_t>(host) % 256),
        image_(offset_ + bytes_ + guard, std::byte{0x4d}) {
    void* memory = nullptr;
    require_cuda(cudaMalloc(&memory, image_.size()));
    memory_ = static_cast<std::byte*>(memory);
    send();
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(memory_); }

  /// Copies the present contents of `host`.
  void send() {
    if (bytes_ > 0) std::memcpy(image_.data() + offset_, host_, bytes_);
    require_cuda(cudaMemcpyAsync(memory_, image_.data(), image_.size(), cudaMemcpyDefault, nullptr));
  }

  V* get() { return host_ == nullptr ? nullptr : reinterpret_cast<V*>(memory_ + offset_); }

  /// Waits for the kernels. Throws if a guard or a const array was written to.
  void fetch() {
    std::vector<std::byte> now(image_.size());
    require_cuda(cudaMemcpyAsync(now.data(), memory_, now.size(), cudaMemcpyDefault, nullptr));
    require_cuda(cudaStreamSynchronize(nullptr));
    const std::size_t end = std::is_const_v<V> ? offset_ : offset_ + bytes_;
    if (std::memcmp(now.data(), image_.data(), offset_) != 0 ||
        std::memcmp(now.data() + end, image_.data() + end, image_.size() - end) != 0)
      throw std::runtime_error("a kernel wrote where it must not");
    if constexpr (!std::is_const_v<V>) {
      if (bytes_ > 0) std::memcpy(host_, now.data() + offset_, bytes_);
    }
  }

 private:
  static constexpr std::size_t guard = 512;
  V* host_;
  std::size_t bytes_, offset_;
  std::vector<std::byte> image_;
  std::byte* memory_ = nullptr;
};

/// A value that a kernel writes.
template <class V>
class Delivered {
 public:
  explicit Delivered(V start = {}) : value_(start) {}
  V* get() { return on_device_.get(); }
  V fetch() {
    on_device_.fetch();
    return value_;
  }

 private:
  V value_;
  OnDevice<V> on_device_{&value_, 1};
};

/// A queue whose scratch is full of what earlier kernels have left there.
class TestQueue {
 public:
  explicit TestQueue(std::int64_t count, std::int64_t bytes = 0)
      : memory_(static_cast<std::size_t>(std::max(bytes, kernels::cuda::scratch_bytes(count))) + 256, std::byte{0xee}),
        scratch_(memory_.data(), static_cast<std::int64_t>(memory_.size())) {}
  operator kernels::cuda::Queue() {
    std::byte* const begin = scratch_.get();
    return {nullptr, begin + (256 - reinterpret_cast<std::uintptr_t>(begin) % 256) % 256};
  }

 private:
  std::vector<std::byte> memory_;
  OnDevice<std::byte> scratch_;
};

/// A count of which the host knows only an upper bound.
class DeviceCount {
 public:
  explicit DeviceCount(std::int64_t count) : count_(count) {}
  operator kernels::cuda::Extent() { return {count_ + 5000, exact_.get()}; }

 private:
  std::int64_t count_;
  Delivered<std::int64_t> exact_{count_};
};

template <class V>
struct Cuda {
  using T = V;
  static constexpr bool on_host = false;

  static std::int64_t compensate_select(const T* gradient, T* residual, std::int64_t count, Key<T> threshold, Key<T> keep_old,
                                        std::uint32_t* indices, T* values, std::int64_t capacity) {
    std::vector<T> sums(residual, residual + count);
    kernels::reference::add(gradient, sums.data(), count);
    OnDevice<const T> g(gradient, count);
    OnDevice<T> r(residual, count), v(values, capacity);
    OnDevice<std::uint32_t> i(indices, capacity);
    Delivered<Found> found;
    kernels::cuda::compensate_select(TestQueue(count), g.get(), r.get(), count, threshold, keep_old, i.get(), v.get(), capacity,
                                     found.get());
    g.fetch(), r.fetch(), v.fetch(), i.fetch();
    return checked(found.fetch(), sums.data(), count);
  }

  static std::int64_t select(const T* x, std::int64_t count, Key<T> threshold, std::uint32_t* indices, T* values,
                             std::int64_t capacity) {
    OnDevice<const T> on_device(x, count);
    OnDevice<T> v(values, capacity);
    OnDevice<std::uint32_t> i(indices, capacity);
    Delivered<Found> found;
    kernels::cuda::select(TestQueue(count), on_device.get(), count, threshold, i.get(), v.get(), capacity, found.get());
    on_device.fetch(), v.fetch(), i.fetch();
    return checked(found.fetch(), x, count);
  }

  static KthKey<T> kth_key(const T* x, std::int64_t count, std::int64_t k) {
    OnDevice<const T> on_device(x, count);
    Delivered<KthKey<T>> found;
    kernels::cuda::kth_key<T, T>(TestQueue(count + 5000), on_device.get(), DeviceCount(count), k, found.get());
    on_device.fetch();
    return found.fetch();
  }

  static void histogram(const T* x, std::int64_t count, Key<T> low, Key<T> high, int shift, std::uint64_t* bins,
                        std::uint64_t* above) {
    OnDevice<const T> on_device(x, count);
    OnDevice<std::uint64_t> b(bins, static_cast<std::int64_t>((high - low) >> shift) + 1), a(above, 1);
    kernels::cuda::histogram(TestQueue(count), on_device.get(), DeviceCount(count), low, high, shift, b.get(), a.get());
    on_device.fetch(), b.fetch(), a.fetch();
  }

  static Moments<T> moments(const T* x, const T* y, std::int64_t count) {
    OnDevice<const T> a(x, count), b(y, y == nullptr ? 0 : count);
    Delivered<Moments<T>> found;
    kernels::cuda::moments<T, T>(TestQueue(count), a.get(), b.get(), DeviceCount(count), found.get());
    a.fetch(), b.fetch();
    return found.fetch();
  }

  static Exceedances<T> exceedances(const T* x, const T* y, std::int64_t count, Key<T> threshold) {
    OnDevice<const T> a(x, count), b(y, y == nullptr ? 0 : count);
    Delivered<Exceedances<T>> found;
    kernels::cuda::exceedances<T, T>(TestQueue(count), a.get(), b.get(), DeviceCount(count), threshold, found.get());
    a.fetch(), b.fetch();
    return found.fetch();
  }

  static void add(const T* x, T* y, std::int64_t count) {
    OnDevice<const T> a(x, count);
    OnDevice<T> b(y, count);
    kernels::cuda::add(TestQueue(count), a.get(), b.get(), count);
    a.fetch(), b.fetch();
  }

  static void scale(T* x, std::int64_t count, T factor) {
    OnDevice<T> a(x, count);
    kernels::cuda::scale(TestQueue(count), a.get(), count, factor);
    a.fetch();
  }

  static void rescale(T* x, std::int64_t count, T factor) {
    OnDevice<T> a(x, count);
    kernels::cuda::rescale(TestQueue(count), a.get(), count, factor);
    a.fetch();
  }

  static void divide(T* x, std::int64_t count, T divisor) {
    OnDevice<T> a(x, count);
    kernels::cuda::divide(TestQueue(count), a.get(), DeviceCount(count), divisor);
    a.fetch();
  }

  static void waxpby(T a, const T* x, T b, const T* y, T* out, std::int64_t count) {
    OnDevice<const T> from(x, x == out ? 0 : count), other(y, y == nullptr || y == out ? 0 : count);
    OnDevice<T> to(out, count);
    kernels::cuda::waxpby<T, T>(TestQueue(count), a, x == out ? to.get() : from.get(), b, y == out ? to.get() : other.get(),
                                to.get(), count);
    from.fetch(), other.fetch(), to.fetch();
  }

  static void clear_taken(T* dense, const std::uint32_t* indices, std::int64_t count, const std::uint32_t* taken,
                          std::int64_t taken_count) {
    OnDevice<const std::uint32_t> i(indices, count), t(taken, taken_count);
    OnDevice<T> d(dense, range(indices, count));
    kernels::cuda::clear_taken(TestQueue(count), d.get(), i.get(), count, t.get(), taken_count);
    i.fetch(), t.fetch(), d.fetch();
  }

  static std::int64_t count_non_finite(const T* x, std::int64_t count) {
    OnDevice<const T> a(x, count);
    Delivered<std::int64_t> found;
    kernels::cuda::count_non_finite(TestQueue(count), a.get(), DeviceCount(count), found.get());
    a.fetch();
    return found.fetch();
  }

  static void fill_zero(T* x, std::int64_t count) {
    OnDevice<T> a(x, count);
    kernels::cuda::fill_zero(TestQueue(count), a.get(), count);
    a.fetch();
  }

  static std::int64_t merge_add(const std::uint32_t* a_indices, const T* a_values, std::int64_t a_count,
                                const std::uint32_t* b_indices, const T* b_values, std::int64_t b_count, std::uint32_t* out_indices,
                                T* out_values) {
    OnDevice<const std::uint32_t> ai(a_indices, a_count), bi(b_indices, b_count);
    OnDevice<const T> av(a_values, a_count), bv(b_values, b_count);
    OnDevice<std::uint32_t> oi(out_indices, a_count + b_count);
    OnDevice<T> ov(out_values, a_count + b_count);
    Delivered<std::int64_t> found;
    kernels::cuda::merge_add(TestQueue(a_count + b_count + 10000), ai.get(), av.get(), DeviceCount(a_count), bi.get(), bv.get(),
                             DeviceCount(b_count), oi.get(), ov.get(), found.get());
    ai.fetch(), bi.fetch(), av.fetch(), bv.fetch(), oi.fetch(), ov.fetch();
    return found.fetch();
  }

  static void settle(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count, const std::uint32_t* taken,
                     std::int64_t taken_count) {
    OnDevice<const std::uint32_t> i(indices, count), t(taken, taken_count);
    OnDevice<const T> v(values, count);
    OnDevice<T> d(dense, range(indices, count));
    kernels::cuda::settle(TestQueue(count), d.get(), i.get(), v.get(), DeviceCount(count), t.get(), DeviceCount(taken_count));
    i.fetch(), t.fetch(), v.fetch(), d.fetch();
  }

  static void scatter(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
    OnDevice<const std::uint32_t> i(indices, count);
    OnDevice<const T> v(values, count);
    OnDevice<T> d(dense, range(indices, count));
    kernels::cuda::scatter(TestQueue(count), d.get(), i.get(), v.get(), DeviceCount(count));
    i.fetch(), v.fetch(), d.fetch();
  }

  static void scatter_add(T* dense, const std::uint32_t* indices, const T* values, std::int64_t count) {
    OnDevice<const std::uint32_t> i(indices, count);
    OnDevice<const T> v(values, count);
    OnDevice<T> d(dense, range(indices, count));
    kernels::cuda::scatter_add(TestQueue(count), d.get(), i.get(), v.get(), count);
    i.fetch(), v.fetch(), d.fetch();
  }

  static void sample(const T* x, const T* y, std::int64_t samples, std::int64_t stride, std::int64_t rest, std::int64_t offset,
                     T* out) {
    const std::int64_t count = samples * stride + rest;
    OnDevice<const T> a(x, count), b(y, y == nullptr ? 0 : count);
    OnDevice<T> o(out, samples);
    kernels::cuda::sample<T, T>(TestQueue(samples), a.get(), b.get(), samples, stride, rest, offset, o.get());
    a.fetch(), b.fetch(), o.fetch();
  }

  static CutCounts count_cut(const T* x, std::int64_t count, Key<T> key) {
    OnDevice<const T> a(x, count);
    Delivered<CutCounts> found;
    kernels::cuda::count_cut(TestQueue(count), a.get(), DeviceCount(count), key, found.get());
    a.fetch();
    return found.fetch();
  }

  static void count_regions(const std::uint32_t* indices, std::int64_t count, const std::uint64_t* boundaries, int regions,
                            std::uint64_t* counts) {
    OnDevice<const std::uint32_t> i(indices, count);
    OnDevice<const std::uint64_t> b(boundaries, regions + 1);
    OnDevice<std::uint64_t> c(counts, regions);
    kernels::cuda::count_regions(TestQueue(0), i.get(), count, b.get(), regions, c.get());
    i.fetch(), b.fetch(), c.fetch();
  }

  static void quantiles(const std::uint32_t* indices, std::int64_t count, int parts, std::uint64_t* out) {
    OnDevice<const std::uint32_t> i(indices, count);
    OnDevice<std::uint64_t> o(out, parts - 1);
    kernels::cuda::quantiles(TestQueue(0), i.get(), count, parts, o.get());
    i.fetch(), o.fetch();
  }

  static void shift_indices(const std::uint32_t* indices, std::int64_t count, std::uint32_t offset, std::uint32_t* out) {
    OnDevice<const std::uint32_t> i(indices, indices == out ? 0 : count);
    OnDevice<std::uint32_t> o(out, count);
    kernels::cuda::shift_indices(TestQueue(0), indices == out ? o.get() : i.get(), count, offset, o.get());
    i.fetch(), o.fetch();
  }

  static std::int64_t select_band(const std::uint32_t* indices, const T* values, std::int64_t count, Band<T>& band,
                                  std::uint32_t* out_indices, T* out_values, T* residual, Key<T> keep_old) {
    std::int64_t above = 0, between = 0;
    for (std::int64_t e = 0; e < count; ++e) {
      const Key<T> key = key_of(values[e]);
      above += key >= band.upper, between += key >= band.lower && key < band.upper;
    }
    const std::int64_t room = above + std::clamp<std::int64_t>(between - band.start, 0, band.slice);
    // Bands of the largest are read from device memory, as in plans.
    const bool largest = band.start == 0 && band.upper == band.lower + 1;
    Delivered<KthKey<T>> kth({band.lower, 0, band.slice});
    OnDevice<const std::uint32_t> i(indices, indices == nullptr ? 0 : count);
    OnDevice<const T> v(values, count);
    OnDevice<std::uint32_t> oi(out_indices, room);
    OnDevice<T> ov(out_values, room), r(residual, residual == nullptr ? 0 : range(indices, count));
    Delivered<std::int64_t> found;
    kernels::cuda::select_band<T, T>(
        TestQueue(count + 5000), i.get(), v.get(), DeviceCount(count),
        largest ? kernels::cuda::DeviceBand<T>{{}, kth.get(), band.slice} : kernels::cuda::DeviceBand<T>{band}, oi.get(), ov.get(),
        r.get(), keep_old, found.get());
    i.fetch(), v.fetch(), oi.fetch(), ov.fetch(), r.fetch();
    band.start -= between;
    return found.fetch();
  }

  static void roll_back(const T* gradient, T* residual, std::int64_t count, const std::uint32_t* held_indices, const T* held_values,
                        std::int64_t held, Key<T> keep_old) {
    std::vector<T> room(static_cast<std::size_t>(held));
    OnDevice<const T> g(gradient, count), v(held_values, held);
    OnDevice<const std::uint32_t> i(held_indices, held);
    OnDevice<T> r(residual, count), olds(room.data(), held);
    kernels::cuda::roll_back(TestQueue(count), g.get(), r.get(), count, i.get(), v.get(), held, keep_old, olds.get());
    g.fetch(), v.fetch(), i.fetch(), r.fetch(), olds.fetch();
  }

  static void gather_rows(const T* x, std::int64_t x_stride, const std::uint32_t* rows, std::int64_t count, std::int64_t width,
                          T* out, std::int64_t out_stride) {
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < count; ++i) last = std::max<std::int64_t>(last, rows[i]);
    OnDevice<const T> a(x, last < 0 ? 0 : last * x_stride + width);
    OnDevice<const std::uint32_t> r(rows, count);
    OnDevice<T> o(out, count == 0 ? 0 : (count - 1) * out_stride + width);
    kernels::cuda::gather_rows(TestQueue(count), a.get(), x_stride, r.get(), count, width, o.get(), out_stride);
    a.fetch(), r.fetch(), o.fetch();
  }

  static void coalesce_rows(const T* x, std::int64_t width, const std::uint32_t* order, const std::uint32_t* first,
                            std::int64_t groups, T* out) {
    const std::int64_t members = groups == 0 ? 0 : first[groups];
    OnDevice<const T> a(x, range(order, members, true) * width);
    OnDevice<const std::uint32_t> m(order, members), f(first, groups + 1);
    OnDevice<T> o(out, groups * width);
    kernels::cuda::coalesce_rows(TestQueue(groups), a.get(), width, m.get(), f.get(), groups, o.get());
    a.fetch(), m.fetch(), f.fetch(), o.fetch();
  }

  static double squared_norm(const T* x, std::int64_t count) {
    OnDevice<const T> a(x, count);
    Delivered<double> found;
    kernels::cuda::squared_norm(TestQueue(count), a.get(), count, count + 1, found.get());
    a.fetch();
    return found.fetch();
  }

  static void momentum_step(const T* gradient, T* weights, T* velocity, std::int64_t count, T rate, T decay, T momentum) {
    OnDevice<const T> g(gradient, count);
    OnDevice<T> w(weights, count), v(velocity, count);
    kernels::cuda::momentum_step(TestQueue(count), g.get(), w.get(), v.get(), count, rate, decay, momentum);
    g.fetch(), w.fetch(), v.fetch();
  }

  static SquaredNorms adam_moments(const T* gradient, const T* weights, T* first, T* second, std::int64_t count,
                                   const AdamFactors<T>& factors) {
    OnDevice<const T> g(gradient, count), w(weights, count);
    OnDevice<T> m(first, count), v(second, count);
    Delivered<SquaredNorms> found;
    kernels::cuda::adam_moments(TestQueue(count), g.get(), w.get(), m.get(), v.get(), count, count + 1, factors, found.get());
    g.fetch(), w.fetch(), m.fetch(), v.fetch();
    return found.fetch();
  }

  static void adam_step(const T* first, const T* second, T* weights, std::int64_t count, T rate, const AdamFactors<T>& factors) {
    OnDevice<const T> m(first, count), v(second, count);
    OnDevice<T> w(weights, count);
    kernels::cuda::adam_step(TestQueue(count), m.get(), v.get(), w.get(), count, rate, factors);
    m.fetch(), v.fetch(), w.fetch();
  }

 private:
  /// Returns one more than the largest index, which is the last one if sorted.
  static std::int64_t range(const std::uint32_t* indices, std::int64_t count, bool unsorted = false) {
    std::int64_t end = count == 0 ? 0 : std::int64_t{indices[count - 1]} + 1;
    for (std::int64_t i = 0; unsorted && i < count; ++i) end = std::max(end, std::int64_t{indices[i]} + 1);
    return end;
  }

  static std::int64_t checked(Found found, const T* read, std::int64_t count) {
    if ((found.non_finite > 0) != (kernels::reference::count_non_finite(read, count) > 0))
      throw std::runtime_error("selection is wrong about what is not finite");
    return found.hits;
  }
};

}  // namespace weir::test
