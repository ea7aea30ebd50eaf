// device_space.hpp: the operations of an exchange on the entries of one rank, in CUDA memory: the members of HostSpace as work on
// the plan's stream. The host waits only in tasks: for counts, before messages are sent, and at the end to check the decoded
// messages.
#pragma once

#include <algorithm>

#include "base/error.hpp"
#include "collectives/global_kth.hpp"
#include "collectives/host_space.hpp"
#include "cuda/runtime.hpp"
#include "cuda/wire.hpp"

namespace weir {

template <class T>
class DeviceSpace {
 public:
  using Segment = coo::Segment<T>;
  template <class V>
  using Array = cuda::DeviceArray<V>;
  static constexpr bool asynchronous = true;
  static constexpr MemorySpace memory = MemorySpace::cuda;

  /// Sends messages through pinned memory of the same size, unless the transport accepts GPU memory.
  class StagingBuffer {
   public:
    StagingBuffer(const DeviceSpace& space, std::int64_t bytes) : pinned_(space.direct_ ? 0 : bytes) {}
    [[nodiscard]] Message at(std::byte* local, std::int64_t offset) const {
      return {local + offset, (pinned_.size() > 0 ? pinned_.data() : local) + offset};
    }
    [[nodiscard]] std::int64_t bytes() const { return pinned_.bytes(); }

   private:
    cuda::PinnedArray<std::byte> pinned_;
  };

  DeviceSpace(const ExchangeSpec& spec, std::int64_t most, std::int64_t pieces)
      : stream_(spec.stream),
        device_(spec.device),
        direct_(spec.direct),
        scratch_(std::max(kernels::cuda::scratch_bytes(most), wire::cuda::decode_scratch<T>(most))),
        counts_(spec.ranks),
        bins_(kth_bins + 1),
        cut_counts_(1),
        words_(std::max(kth_bins + 1, spec.ranks)),
        boundaries_(spec.ranks + 1),
        verdicts_(pieces) {}

  [[nodiscard]] std::int64_t memory_bytes() const {
    return scratch_.bytes() + counts_.bytes() + bins_.bytes() + cut_counts_.bytes() + words_.bytes() + boundaries_.bytes() +
           verdicts_.bytes();
  }

  task<void> done(Channel channel) {
    event_.record(stream_);
    co_await channel.done(event_);
    const std::int64_t* const end = verdicts_.data() + decoded_;
    decoded_ = 0;
    if (std::any_of(static_cast<const std::int64_t*>(verdicts_.data()), end, [](std::int64_t malformed) { return malformed != 0; }))
      fail(WEIR_ERR_TRANSPORT, "a message of a sparse vector is malformed: its indices are not what was agreed");
  }

  std::int64_t encode(wire::Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                      std::uint64_t range, Message to) {
    return wire::cuda::encode(queue(), wire, indices, values, count, base, range, to.local);
  }
  void push(Message from, std::int64_t bytes) {
    if (from.wire != from.local) cuda::copy(from.wire, from.local, bytes, stream_);
  }
  void pull(Message from, std::int64_t bytes) {
    if (from.wire != from.local) cuda::copy(from.local, from.wire, bytes, stream_);
  }
  void decode(wire::Wire wire, const std::byte* from, std::int64_t /*bytes*/, std::int64_t count, std::uint32_t base,
              std::uint64_t range, std::uint32_t* indices, T* values) {
    if (count == 0) return;
    if (decoded_ == verdicts_.size()) fail(WEIR_ERR_INTERNAL, "more messages at a time than the {} planned", decoded_);
    wire::cuda::decode(queue(), wire, from, count, base, range, indices, values, verdicts_.data() + decoded_++);
  }

  task<void> quantiles(Channel channel, SparseVector<T> entries, int parts, std::uint64_t* out) {
    kernels::cuda::quantiles(queue(), entries.indices, entries.count, parts, words_.data());
    co_await done(channel);
    std::copy_n(words_.data(), parts - 1, out);
  }
  task<void> count_regions(Channel channel, SparseVector<T> entries, const Boundaries& boundaries, std::uint64_t* counts) {
    std::copy(boundaries.begin(), boundaries.end(), boundaries_.data());
    const auto regions = static_cast<int>(boundaries.size()) - 1;
    kernels::cuda::count_regions(queue(), entries.indices, entries.count, boundaries_.data(), regions, words_.data());
    co_await done(channel);
    std::copy_n(words_.data(), regions, counts);
  }
  using IndexCopy = cuda::PinnedArray<std::uint32_t>;
  task<std::span<const std::uint32_t>> indices_of(Channel channel, SparseVector<T> entries, IndexCopy& copy) {
    cuda::copy(copy.data(), entries.indices, entries.count * std::int64_t{sizeof(std::uint32_t)}, stream_);
    co_await done(channel);
    co_return std::span<const std::uint32_t>(copy.data(), static_cast<std::size_t>(entries.count));
  }

  void copy_shifted(SparseVector<T> from, std::uint32_t offset, Segment to) {
    cuda::copy(to.values, from.values, from.count * std::int64_t{sizeof(T)}, stream_);
    kernels::cuda::shift_indices(queue(), from.indices, from.count, offset, to.indices);
  }
  void shift(Segment entries, std::uint32_t offset) {
    kernels::cuda::shift_indices(queue(), entries.indices, entries.count, offset, entries.indices);
  }

  [[nodiscard]] Segment merge_add(Segment a, Segment b, Segment to, int number) {
    std::int64_t* const exact = counts_.data() + number;
    kernels::cuda::merge_add(queue(), a.indices, a.values, extent(a), b.indices, b.values, extent(b), to.indices, to.values, exact);
    to.count = a.count + b.count;
    to.exact = exact;
    return to;
  }
  [[nodiscard]] Segment copy(Segment a, Segment to) {
    cuda::copy(to.values, a.values, a.count * std::int64_t{sizeof(T)}, stream_);
    cuda::copy(to.indices, a.indices, a.count * std::int64_t{sizeof(std::uint32_t)}, stream_);
    to.count = a.count;
    to.exact = a.exact;
    return to;
  }
  task<std::int64_t> count_of(Channel channel, Segment entries) {
    if (entries.exact != nullptr) cuda::copy(words_.data(), entries.exact, sizeof(std::int64_t), stream_);
    co_await done(channel);
    co_return entries.exact != nullptr ? static_cast<std::int64_t>(words_.data()[0]) : entries.count;
  }

  task<void> histogram(Channel channel, Segment entries, Key<T> low, Key<T> high, int shift, std::span<std::uint64_t> bins,
                       std::uint64_t* above) {
    kernels::cuda::fill_zero(queue(), bins_.data(), bins_.size());
    kernels::cuda::histogram(queue(), entries.values, extent(entries), low, high, shift, bins_.data(), bins_.data() + kth_bins);
    cuda::copy(words_.data(), bins_.data(), bins_.bytes(), stream_);
    co_await done(channel);
    std::copy_n(words_.data(), kth_bins, bins.begin());
    *above = words_.data()[kth_bins];
  }
  task<CutCounts> count_cut(Channel channel, Segment entries, Key<T> key) {
    kernels::cuda::count_cut(queue(), entries.values, extent(entries), key, cut_counts_.data());
    co_await done(channel);
    co_return *cut_counts_.data();
  }
  [[nodiscard]] Segment keep(Segment entries, Key<T> key, std::int64_t ties, std::int64_t kept, Segment to) {
    const Band<T> band{static_cast<Key<T>>(key + 1), key, 0, ties};
    kernels::cuda::select_band<T, T>(queue(), entries.indices, entries.values, extent(entries), {band}, to.indices, to.values,
                                     nullptr, 0, counts_.data() + counts_.size() - 1);
    to.count = kept;
    return to;
  }

  void add_values(const T* x, T* y, std::int64_t count) { kernels::cuda::add(queue(), x, y, count); }
  void copy_values(const T* x, T* y, std::int64_t count) { cuda::copy(y, x, count * std::int64_t{sizeof(T)}, stream_); }
  void divide(Segment entries, const ExchangeSpec& spec) {
    if (spec.divisor != 1) kernels::cuda::divide(queue(), entries.values, extent(entries), static_cast<T>(spec.divisor));
  }
  void subtract_rounded(wire::Wire wire, Segment entries) {
    if constexpr (sizeof(T) == 4) wire::cuda::subtract_rounded(queue(), wire, entries.values, entries.count);
  }

 private:
  [[nodiscard]] kernels::cuda::Queue queue() const { return {stream_, scratch_.data(), device_}; }
  [[nodiscard]] static kernels::cuda::Extent extent(Segment entries) { return {entries.count, entries.exact}; }

  void* stream_;
  int device_;
  bool direct_;
  cuda::DeviceArray<std::byte> scratch_;
  cuda::DeviceArray<std::int64_t> counts_;  // of the sums of a tree, and at the end of what was kept
  cuda::DeviceArray<std::uint64_t> bins_;
  // Results that the device returns to the host. Each is read before the next is requested.
  cuda::PinnedArray<CutCounts> cut_counts_;
  cuda::PinnedArray<std::uint64_t> words_, boundaries_;
  cuda::PinnedArray<std::int64_t> verdicts_;  // of the messages decoded since the last wait
  std::int64_t decoded_ = 0;
  cuda::Event event_;
};

}  // namespace weir
