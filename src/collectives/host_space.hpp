// host_space.hpp: the operations of an exchange on the entries of one rank, in host memory. DeviceSpace in device_space.hpp has the
// same members for CUDA memory: algorithms are templates over the two.
//
// Except for tasks, a call may return before its work is done. Work is done in the order of the calls; `done` waits for it.
// Messages are in `wire` memory when they are sent and received, and in `local` memory when they are written and read.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/buffer.hpp"
#include "codec/coo.hpp"
#include "codec/wire.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/regions.hpp"
#include "collectives/shared_work.hpp"
#include "kernels/kernels.hpp"

namespace weir {

/// The memory of messages, as kernels and as the transport see it.
struct Message {
  std::byte* local = nullptr;
  std::byte* wire = nullptr;
  [[nodiscard]] Message operator+(std::int64_t bytes) const { return {local + bytes, wire + bytes}; }
};

template <class T>
class HostSpace {
 public:
  using Segment = coo::Segment<T>;
  template <class V>
  using Array = Buffer<V>;
  /// True if work goes on after a call returns. It then pays to queue several calls before waiting.
  static constexpr bool asynchronous = false;
  static constexpr MemorySpace memory = MemorySpace::host;

  /// Adds the wire side to the memory of messages.
  class StagingBuffer {
   public:
    StagingBuffer(const HostSpace&, std::int64_t /*bytes*/) {}
    [[nodiscard]] Message at(std::byte* local, std::int64_t offset) const { return {local + offset, local + offset}; }
    [[nodiscard]] std::int64_t bytes() const { return 0; }
  };

  /// `most` bounds the entries of each vector, message and sum. At most `pieces` messages are handled at a time.
  HostSpace(const ExchangeSpec& spec, std::int64_t most, std::int64_t /*pieces*/)
      : threads_(spec.threads), merge_(spec.threads, most) {}
  [[nodiscard]] std::int64_t memory_bytes() const { return merge_.memory_bytes(); }

  /// Waits until all work is done. Throws Error(WEIR_ERR_TRANSPORT) if a message that was read is malformed.
  task<void> done(Channel) { co_return; }

  /// Encodes into to.local, as wire::encode does.
  std::int64_t encode(wire::Wire wire, const std::uint32_t* indices, const T* values, std::int64_t count, std::uint32_t base,
                      std::uint64_t range, Message to) {
    return wire::encode(wire, indices, values, count, base, range, to.local, threads_);
  }
  /// Moves what was encoded in from.local to from.wire. It can be sent after done().
  void push(Message, std::int64_t /*bytes*/) {}
  /// Moves what was received in from.wire to from.local.
  void pull(Message, std::int64_t /*bytes*/) {}
  /// Decodes from local memory, as wire::decode does.
  void decode(wire::Wire wire, const std::byte* from, std::int64_t bytes, std::int64_t count, std::uint32_t base,
              std::uint64_t range, std::uint32_t* indices, T* values) {
    wire::decode(wire, from, bytes, count, base, range, indices, values, threads_);
  }

  /// Computes the quantiles of the entries' indices, as the kernel does.
  task<void> quantiles(Channel, SparseVector<T> entries, int parts, std::uint64_t* out) {
    kernels::host::quantiles(entries.indices, entries.count, parts, out);
    co_return;
  }
  /// Sets counts[j] to the number of entries in region j.
  task<void> count_regions(Channel, SparseVector<T> entries, const Boundaries& boundaries, std::uint64_t* counts) {
    kernels::host::count_regions(entries.indices, entries.count, boundaries.data(), static_cast<int>(boundaries.size()) - 1,
                                 counts);
    co_return;
  }
  /// Memory for indices_of(), for a given number of indices.
  class IndexCopy {
   public:
    explicit IndexCopy(std::int64_t /*size*/) {}
    [[nodiscard]] std::int64_t bytes() const { return 0; }
  };
  /// Returns the indices in memory that the host can read.
  task<std::span<const std::uint32_t>> indices_of(Channel, SparseVector<T> entries, IndexCopy&) { co_return entries.index_span(); }

  /// Copies the first from.count entries to `to`, with `offset` added to the indices, modulo 2^32.
  void copy_shifted(SparseVector<T> from, std::uint32_t offset, Segment to) {
    std::copy_n(from.values, from.count, to.values);
    kernels::host::shift_indices(from.indices, from.count, offset, to.indices);
  }
  void shift(Segment entries, std::uint32_t offset) {
    kernels::host::shift_indices(entries.indices, entries.count, offset, entries.indices);
  }

  /// Write a + b, or a, to the memory of `to`. Return it with its count. `number` is the index of the sum among those of one
  /// tree.
  [[nodiscard]] Segment merge_add(Segment a, Segment b, Segment to, int /*number*/) {
    to.count = merge_.merge_add(a, b, to);
    return to;
  }
  [[nodiscard]] Segment copy(Segment a, Segment to) {
    std::memcpy(to.values, a.values, static_cast<std::size_t>(a.count) * sizeof(T));
    std::memcpy(to.indices, a.indices, static_cast<std::size_t>(a.count) * sizeof(std::uint32_t));
    to.count = a.count;
    return to;
  }
  task<std::int64_t> count_of(Channel, Segment entries) { co_return entries.count; }

  /// Computes the histogram as the kernel does, into `bins` and `above` of the host, which it sets.
  task<void> histogram(Channel, Segment entries, Key<T> low, Key<T> high, int shift, std::span<std::uint64_t> bins,
                       std::uint64_t* above) {
    std::fill(bins.begin(), bins.end(), 0);
    *above = 0;
    kernels::host::histogram(entries.values, entries.count, low, high, shift, bins.data(), above);
    co_return;
  }
  task<CutCounts> count_cut(Channel, Segment entries, Key<T> key) {
    co_return kernels::host::count_cut(entries.values, entries.count, key);
  }
  /// Keeps the entries with a key above `key`, and the first `ties` with that key: `kept` in all, as the caller knows. `to` must
  /// have room for select_padding more.
  [[nodiscard]] Segment keep(Segment entries, Key<T> key, std::int64_t ties, std::int64_t kept, Segment to) {
    Band<T> band{static_cast<Key<T>>(key + 1), key, 0, ties};
    kernels::host::select_band<T>(entries.indices, entries.values, entries.count, band, to.indices, to.values, nullptr, 0);
    to.count = kept;
    return to;
  }

  /// Work on dense arrays: y += x, and y = x.
  void add_values(const T* x, T* y, std::int64_t count) { weir::add_values(threads_, x, y, count); }
  void copy_values(const T* x, T* y, std::int64_t count) { std::copy_n(x, count, y); }
  /// Divides the entries by the divisor.
  void divide(Segment entries, const ExchangeSpec& spec) {
    if (spec.divisor != 1) kernels::host::divide(entries.values, entries.count, static_cast<T>(spec.divisor));
  }
  /// Subtracts as wire::subtract_rounded does.
  void subtract_rounded(wire::Wire wire, Segment entries) { wire::subtract_rounded(wire, entries.values, entries.count); }

 private:
  Threads threads_;
  SharedMerge<T> merge_;
};

}  // namespace weir
