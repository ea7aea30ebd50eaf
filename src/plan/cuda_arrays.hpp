// cuda_arrays.hpp: operations on the gradient, the residual and the selection of a step in CUDA memory. The members are those of
// HostArrays and queue their work on the plan's stream. The host waits only in report(), on_host(), finish() and copy().
#pragma once

#include <algorithm>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "collectives/device_space.hpp"
#include "collectives/staged_allreduce.hpp"
#include "collectives/staged_exchange.hpp"
#include "compress/cuda_kernels.hpp"
#include "compress/device_codec.hpp"
#include "contribution/host_arrays.hpp"
#include "cuda/runtime.hpp"
#include "cuda/wire.hpp"
#include "kernels/cuda_kernels.hpp"
#include "nccl/allreduce_dense.hpp"
#include "nccl/node_sum.hpp"

namespace weir {

/// Gradients are of type G. Computed and kept values are of type T.
template <class G, class T>
class CudaArrays {
 public:
  using Gradient = G;
  using Value = T;
  using Space = DeviceSpace<T>;
  using NodeSum = detail::NcclNodeSum<G>;
  using NodeShards = detail::NcclNodeShards<G>;
  template <class V>
  using Array = cuda::DeviceArray<V>;
  static constexpr bool asynchronous = true;
  static constexpr bool in_place = false;

  struct Entries {
    cuda::DeviceArray<std::uint32_t> indices;
    cuda::DeviceArray<T> values;

    Entries() = default;
    explicit Entries(std::int64_t capacity) : indices(capacity), values(capacity) {}
    [[nodiscard]] SparseVector<T> first(std::int64_t count) const { return {indices.data(), values.data(), count}; }
    [[nodiscard]] std::int64_t bytes() const { return indices.bytes() + values.bytes(); }
  };

  /// Serves arrays of `count` elements. on_host() may be asked for up to `most_on_host` values. `stream` and what `channel` refers
  /// to must outlive the object.
  CudaArrays(Channel channel, void* stream, std::int64_t count, std::int64_t most_on_host, const Threads& /*threads*/)
      : channel_(channel),
        stream_(stream),
        scratch_(kernels::cuda::scratch_bytes(count)),
        on_device_(1),
        results_(1),
        values_on_host_(most_on_host) {}
  void reserve(std::int64_t /*capacity*/) {}
  [[nodiscard]] std::int64_t memory_bytes() const {
    return scratch_.bytes() + on_device_.bytes() + results_.bytes() + values_on_host_.bytes();
  }

  [[nodiscard]] static std::unique_ptr<SparseAllreduce<T>> make_sparse(const AllreduceRow& row, const ExchangeSpec& spec) {
    auto algorithm = row.make_sparse<T>(spec);
    if (algorithm->memory() == MemorySpace::cuda) return algorithm;
    return std::make_unique<StagedAllreduce<T>>(std::move(algorithm), spec, row.largest_update(spec));
  }
  [[nodiscard]] static std::unique_ptr<DenseAllreduce<G>> make_dense(std::string_view name, const ExchangeSpec& spec,
                                                                     detail::NcclGroups* nccl) {
    return detail::make_dense_nccl<G>(name, spec, *nccl);
  }
  [[nodiscard]] static std::unique_ptr<CompressedExchange> make_packed(const AllreduceRow& row, const ExchangeSpec& spec,
                                                                       const compress::Compressor& compressor) {
    auto codec = compress::make_device_codec(compressor, {spec.stream, nullptr, spec.device});
    if (codec != nullptr) return row.make_packed(spec, std::move(codec));
    ExchangeSpec on_host = spec;
    on_host.memory = MemorySpace::host;
    return staged(row.make_packed(on_host, compressor.row->codec(compressor.parameters)), spec);
  }
  [[nodiscard]] static std::unique_ptr<CompressedExchange> staged(std::unique_ptr<CompressedExchange> exchange,
                                                                  const ExchangeSpec& spec) {
    return std::make_unique<StagedExchange>(std::move(exchange), spec);
  }
  static constexpr std::string_view flat_dense = "dense_nccl";
  void finish() { cuda::synchronize(stream_); }
  void copy(void* to, const void* from, std::int64_t bytes) {
    cuda::copy(to, from, bytes, stream_);
    finish();
  }

  task<void> report() {
    cuda::copy(results_.data(), on_device_.data(), sizeof(Results<T>), stream_);
    reported_.record(stream_);
    co_await channel_.done(reported_);
  }
  [[nodiscard]] const Results<T>& results() const { return *results_.data(); }

  template <class X>
  void compensate(const X* gradient, T* residual, std::int64_t count, Key<T> floor, Key<T> keep_old, Summary summary, Entries& out,
                  std::int64_t capacity) {
    if (summary == Summary::moments)
      kernels::cuda::moments<X, T>(queue(), gradient, residual, {count}, &on_device_.data()->moments);
    else if (summary == Summary::magnitudes)
      kernels::cuda::exceedances<X, T>(queue(), gradient, residual, {count}, 0, &on_device_.data()->exceedances);
    if (residual != nullptr)
      kernels::cuda::compensate_select(queue(), gradient, residual, count, floor, keep_old, out.indices.data(), out.values.data(),
                                       capacity, &on_device_.data()->found);
    else
      select(gradient, count, floor, out, capacity);
  }
  template <class X>
  [[nodiscard]] bool is_finite(const X* /*gradient*/, std::int64_t /*count*/, const Entries& /*out*/,
                               std::int64_t /*stored*/) const {
    return results().found.non_finite == 0;
  }
  template <class X>
  void select(const X* x, std::int64_t count, Key<T> floor, Entries& out, std::int64_t capacity) {
    kernels::cuda::select<X, T>(queue(), x, count, floor, out.indices.data(), out.values.data(), capacity,
                                &on_device_.data()->found);
  }
  template <class X>
  void count_hits(const X* x, std::int64_t count, Key<T> floor) {
    kernels::cuda::select<X, T>(queue(), x, count, floor, nullptr, nullptr, 0, &on_device_.data()->found);
  }
  template <class X>
  void exceedances(const X* x, std::int64_t count, Key<T> threshold) {
    kernels::cuda::exceedances<X, T>(queue(), x, nullptr, {count}, threshold, &on_device_.data()->exceedances);
  }
  void count_non_finite(const G* x, std::int64_t count) {
    kernels::cuda::exceedances<G, T>(queue(), x, nullptr, {count}, key_infinity<T>, &on_device_.data()->exceedances);
  }
  template <class X>
  void sample(const X* x, const T* y, const ThresholdSample& of, T* out) {
    kernels::cuda::sample<X, T>(queue(), x, y, of.size, of.stride, of.rest, of.offset, out);
  }
  template <class X>
  void kth_key(const X* x, std::int64_t count, std::int64_t k) {
    kernels::cuda::kth_key<X, T>(queue(), x, {count}, k, &on_device_.data()->kth);
  }
  void moments(const G* x, std::int64_t count) {
    kernels::cuda::moments<G, T>(queue(), x, nullptr, {count}, &on_device_.data()->moments);
  }
  void rank(const Entries& entries, std::int64_t capacity, std::int64_t k) {
    kernels::cuda::kth_key<T, T>(queue(), entries.values.data(), {capacity, &on_device_.data()->found.hits}, k,
                                 &on_device_.data()->kth);
  }

  void keep(const Entries& from, std::int64_t count, const Wanted<T>& wanted, Entries& to, T* residual, Key<T> keep_old) {
    kernels::cuda::select_band<T, T>(queue(), from.indices.data(), from.values.data(), {count}, band_of(wanted), to.indices.data(),
                                     to.values.data(), residual, keep_old, &on_device_.data()->kept);
  }
  template <class X>
  void take(const X* x, std::int64_t count, const Wanted<T>& wanted, Entries& to) {
    kernels::cuda::select_band<X, T>(queue(), nullptr, x, {count}, band_of(wanted), to.indices.data(), to.values.data(), nullptr, 0,
                                     &on_device_.data()->kept);
  }
  void put_back(T* residual, const Entries& entries, std::int64_t count, Key<T> /*keep_old*/) {
    scatter(residual, entries.first(count));
  }
  template <class X>
  void pick(const X* x, std::int64_t count, std::int64_t k, const Draw& draw, bool scales_up, Entries& to) {
    compress::cuda::pick<X, T>(queue(), x, {count, k}, draw, scales_up, to.indices.data(), to.values.data());
  }
  task<const T*> on_host(const Entries& entries, std::int64_t count) {
    cuda::copy(values_on_host_.data(), entries.values.data(), count * static_cast<std::int64_t>(sizeof(T)), stream_);
    co_await report();
    co_return values_on_host_.data();
  }

  void settle(T* residual, SparseVector<T> entries, SparseVector<T> taken) {
    kernels::cuda::settle(queue(), residual, entries.indices, entries.values, {entries.count}, taken.indices, {taken.count});
  }
  template <class X>
  void roll_back(const X* gradient, T* residual, std::int64_t count, SparseVector<T> held, Key<T> keep_old, Entries& spare) {
    kernels::cuda::roll_back(queue(), gradient, residual, count, held.indices, held.values, held.count, keep_old,
                             spare.values.data());
  }
  template <class X>
  void add(const X* x, T* y, std::int64_t count) {
    if constexpr (std::is_same_v<X, T>)
      kernels::cuda::add(queue(), x, y, count);
    else
      waxpby(T{1}, x, T{1}, y, y, count);
  }
  template <class X>
  void waxpby(T a, const X* x, T b, const T* y, T* out, std::int64_t count) {
    kernels::cuda::waxpby<X, T>(queue(), a, x, b, y, out, count);
  }
  void rescale(T* x, std::int64_t count, T factor) { kernels::cuda::rescale(queue(), x, count, factor); }
  void narrow(const T* x, G* out, std::int64_t count) {
    if constexpr (std::is_same_v<G, T>)
      cuda::copy(out, x, count * static_cast<std::int64_t>(sizeof(T)), stream_);
    else
      kernels::cuda::narrow(queue(), x, out, count);
  }
  void clear_taken(T* dense, SparseVector<T> entries, SparseVector<T> taken) {
    kernels::cuda::clear_taken(queue(), dense, entries.indices, entries.count, taken.indices, taken.count);
  }
  template <class X>
  void fill_zero(X* x, std::int64_t count) {
    kernels::cuda::fill_zero(queue(), x, count);
  }
  template <class X>
  void densify(X* dense, std::int64_t count, SparseVector<T> entries) {
    fill_zero(dense, count);
    scatter(dense, entries);
  }
  template <class X>
  void scatter(X* dense, SparseVector<T> entries) {
    kernels::cuda::scatter<X, T>(queue(), dense, entries.indices, entries.values, {entries.count});
  }
  void scatter_add(T* dense, SparseVector<T> entries, std::span<const std::int64_t> runs) {
    const std::int64_t whole[] = {entries.count};
    std::int64_t first = 0;
    for (const std::int64_t end : runs.empty() ? std::span<const std::int64_t>(whole) : runs) {
      kernels::cuda::scatter_add(queue(), dense, entries.indices + first, entries.values + first, end - first);
      first = end;
    }
  }
  void round(wire::Wire wire, SparseVector<T> entries, T* rounded) {
    if constexpr (sizeof(T) == 4) wire::cuda::round_values(queue(), wire, entries.values, rounded, entries.count);
  }
  void return_rounded(wire::Wire wire, T* dense, SparseVector<T> entries, const T* /*rounded*/, SparseVector<T> taken) {
    if constexpr (sizeof(T) == 4)
      wire::cuda::return_rounded(queue(), wire, dense, entries.indices, entries.values, entries.count, taken.indices, taken.count);
  }

 private:
  /// The bound of the k largest is the k-th key, which queued work may still have to write.
  [[nodiscard]] kernels::cuda::DeviceBand<T> band_of(const Wanted<T>& wanted) const {
    if (wanted.largest < 0) return {wanted.band};
    return {{}, &on_device_.data()->kth, wanted.largest};
  }
  [[nodiscard]] kernels::cuda::Queue queue() const { return {stream_, scratch_.data(), device_}; }

  Channel channel_;
  void* stream_;
  int device_ = cuda::current_device();
  cuda::DeviceArray<std::byte> scratch_;
  cuda::DeviceArray<Results<T>> on_device_;
  cuda::PinnedArray<Results<T>> results_;
  cuda::PinnedArray<T> values_on_host_;
  cuda::Event reported_;
};

}  // namespace weir
