// host_arrays.hpp: operations on the gradient, the residual and the selection of a step in host memory. CudaArrays in
// cuda_arrays.hpp has the same members for CUDA memory: selection and steps are templates over the two.
//
// A call may return before its work is done. Work is done in the order of the calls. What it finds is in results() once report()
// has been awaited.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <coroutine>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/buffer.hpp"
#include "base/threads.hpp"
#include "codec/wire.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/compressed_exchange.hpp"
#include "collectives/host_space.hpp"
#include "collectives/node_sum.hpp"
#include "collectives/shared_work.hpp"
#include "compress/compressor.hpp"
#include "compress/strata.hpp"
#include "contribution/selection_setup.hpp"
#include "kernels/kernels.hpp"

namespace weir {

namespace detail {
class NcclGroups;
}

/// Holds what calls find.
template <class T>
struct Results {
  Found found;
  KthKey<T> kth{};
  std::int64_t kept = 0;
  Moments<T> moments;          ///< of the compensated gradient
  Exceedances<T> exceedances;  ///< of the compensated gradient, or beyond the threshold of exceedances()
};

/// The entries to select: those of a band, or the k largest by Results::kth, ties to the lowest index.
template <class T>
struct Wanted {
  Band<T> band{};
  std::int64_t largest = -1;  ///< k; -1: the band
};

template <class T>
class HostArrays {
 public:
  using Gradient = T;
  using Value = T;
  using Space = HostSpace<T>;
  using NodeSum = weir::NodeSum<T>;
  using NodeShards = weir::NodeShards<T>;
  template <class V>
  using Array = Buffer<V>;
  /// True if work goes on after a call returns. It then pays to queue several calls before waiting.
  static constexpr bool asynchronous = false;
  /// True if the kept entries may overwrite the entries that they are selected from.
  static constexpr bool in_place = true;

  struct Entries {
    Buffer<std::uint32_t> indices;
    Buffer<T> values;

    Entries() = default;
    explicit Entries(std::int64_t capacity) : indices(capacity + select_padding), values(capacity + select_padding) {}
    [[nodiscard]] SparseVector<T> first(std::int64_t count) const { return {indices.data(), values.data(), count}; }
    [[nodiscard]] std::int64_t bytes() const { return indices.bytes() + values.bytes(); }
  };

  /// Serves arrays of `count` elements. on_host() may be asked for up to `most_on_host` values.
  HostArrays(std::optional<Channel> /*channel*/, void* /*stream*/, std::int64_t count, std::int64_t /*most_on_host*/,
             Threads threads = {})
      : threads_(std::move(threads)), parts_(threads_.parts(count, least_selected)), count_(count) {}
  /// Prepares for calls of compensate() with up to `capacity` entries.
  void reserve(std::int64_t capacity) {
    if (parts_ == 1) return;
    sums_ = Buffer<Sums>((count_ + block - 1) / block);
    finds_.resize(static_cast<std::size_t>(parts_));
    for (int part = 1; part < parts_; ++part)
      finds_[static_cast<std::size_t>(part)].entries = Entries(std::min(capacity, range(part).count()));
  }
  [[nodiscard]] std::int64_t memory_bytes() const {
    std::int64_t bytes = sums_.bytes();
    for (const Find& find : finds_) bytes += find.entries.bytes();
    return bytes;
  }

  [[nodiscard]] static std::unique_ptr<SparseAllreduce<T>> make_sparse(const AllreduceRow& row, const ExchangeSpec& spec) {
    return row.make_sparse<T>(spec);
  }
  [[nodiscard]] static std::unique_ptr<DenseAllreduce<T>> make_dense(std::string_view name, const ExchangeSpec& spec,
                                                                     detail::NcclGroups* /*nccl*/) {
    return find_allreduce(name).make_dense<T>(spec);
  }
  [[nodiscard]] static std::unique_ptr<CompressedExchange> make_packed(const AllreduceRow& row, const ExchangeSpec& spec,
                                                                       const compress::Compressor& compressor) {
    return row.make_packed(spec, compressor.row->codec(compressor.parameters));
  }
  /// Returns a linear compressor's exchange for this memory; `exchange` is for host memory.
  [[nodiscard]] static std::unique_ptr<CompressedExchange> staged(std::unique_ptr<CompressedExchange> exchange,
                                                                  const ExchangeSpec& /*spec*/) {
    return exchange;
  }
  /// The algorithm of dense iterations, for algorithms that do not shard.
  static constexpr std::string_view flat_dense = "dense_ring";
  /// Blocks until all work is done.
  void finish() {}
  /// Copies between an array here and one in ordinary host memory, in either direction. Blocks until done.
  void copy(void* to, const void* from, std::int64_t bytes) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); }

  [[nodiscard]] std::suspend_never report() const noexcept { return {}; }
  [[nodiscard]] const Results<T>& results() const { return results_; }

  /// Computes residual += gradient, and finds all entries of the sum with key >= floor. Without a residual (nullptr), finds those
  /// of the gradient. See the kernel compensate_select.
  void compensate(const T* gradient, T* residual, std::int64_t count, Key<T> floor, Key<T> keep_old, Summary summary, Entries& out,
                  std::int64_t capacity) {
    results_.moments = {};
    results_.exceedances = {};
    const Pass pass{gradient, residual, floor, keep_old, summary};
    if (parts_ == 1) {
      results_.found.hits =
          compensate_range(pass, {0, count}, out, capacity, [this](std::int64_t, const Sums& sums) { add_up(sums); });
      return;
    }
    threads_.run(parts_, [&](int part) {
      Find& find = finds_[static_cast<std::size_t>(part)];
      Entries& to = part == 0 ? out : find.entries;
      find.room = std::min(capacity, part == 0 ? capacity : range(part).count());
      find.hits = compensate_range(pass, range(part), to, find.room,
                                   [this](std::int64_t number, const Sums& sums) { sums_[number] = sums; });
    });
    for (std::int64_t i = 0; summary != Summary::none && i < sums_.size(); ++i) add_up(sums_[i]);
    results_.found.hits = gather(out, capacity, residual, keep_old);
  }
  /// Returns true if all sums of the last compensate() are finite. That call must have left `stored` entries in `out`.
  [[nodiscard]] bool is_finite(const T* gradient, std::int64_t count, const Entries& out, std::int64_t stored) const {
    return kernels::host::count_non_finite(out.values.data(), stored) == 0 &&
           (results_.found.hits == stored || kernels::host::count_non_finite(gradient, count) == 0);
  }
  /// Finds all entries of x with key >= floor.
  void select(const T* x, std::int64_t count, Key<T> floor, Entries& out, std::int64_t capacity) {
    results_.found.hits = kernels::host::select(x, count, floor, out.indices.data(), out.values.data(), capacity);
  }
  /// Counts all entries of x with key >= floor.
  void count_hits(const T* x, std::int64_t count, Key<T> floor) {
    results_.found.hits = kernels::host::select<T>(x, count, floor, nullptr, nullptr, 0);
  }
  void exceedances(const T* x, std::int64_t count, Key<T> threshold) {
    results_.exceedances = kernels::host::exceedances<T>(x, nullptr, count, threshold);
  }
  /// Counts into results().exceedances.count.
  void count_non_finite(const T* x, std::int64_t count) {
    std::atomic<std::int64_t> found = 0;
    over(count, [&](PartRange mine) { found += kernels::host::count_non_finite(x + mine.begin, mine.count()); });
    results_.exceedances.count = found;
  }
  void sample(const T* x, const T* y, const ThresholdSample& of, T* out) {
    kernels::host::sample(x, y, of.size, of.stride, of.rest, of.offset, out);
  }
  void kth_key(const T* x, std::int64_t count, std::int64_t k) { results_.kth = kernels::host::kth_key(x, count, k); }
  /// Computes results().moments.
  void moments(const T* x, std::int64_t count) { results_.moments = kernels::host::moments<T>(x, nullptr, count); }
  /// Finds the k-th key among the entries that the last pass found and `capacity` had room for.
  void rank(const Entries& entries, std::int64_t capacity, std::int64_t k) {
    kth_key(entries.values.data(), std::min(results_.found.hits, capacity), k);
  }

  /// Keeps the wanted ones of the entries. The others stay in the residual, as select_band does it.
  void keep(const Entries& from, std::int64_t count, const Wanted<T>& wanted, Entries& to, T* residual, Key<T> keep_old) {
    Band<T> band = band_of(wanted);
    results_.kept = kernels::host::select_band(from.indices.data(), from.values.data(), count, band, to.indices.data(),
                                               to.values.data(), residual, keep_old);
  }
  /// Writes the entries with key >= keep_old to the residual, which already holds the others.
  void put_back(T* residual, const Entries& entries, std::int64_t count, Key<T> keep_old) {
    std::uint32_t indices[select_padding];
    T values[select_padding];
    Band<T> nothing{std::numeric_limits<Key<T>>::max(), std::numeric_limits<Key<T>>::max(), 0, 0};
    kernels::host::select_band(entries.indices.data(), entries.values.data(), count, nothing, indices, values, residual, keep_old);
  }
  /// Takes the wanted ones of all x, block by block: more entries may lie between the thresholds than there is room for.
  void take(const T* x, std::int64_t count, const Wanted<T>& wanted, Entries& to) {
    Band<T> band = band_of(wanted);
    results_.kept = 0;
    for (std::int64_t begin = 0; begin < count; begin += SelectionSetup::spare_candidates) {
      const std::int64_t size = std::min(SelectionSetup::spare_candidates, count - begin);
      std::uint32_t* const indices = to.indices.data() + results_.kept;
      T* const values = to.values.data() + results_.kept;
      // Once the slice is full, only entries above it count.
      const Key<T> floor = band.start + band.slice > 0 ? band.lower : band.upper;
      const std::int64_t hits = kernels::host::select(x + begin, size, floor, indices, values, size);
      for (std::int64_t i = 0; i < hits; ++i) indices[i] += static_cast<std::uint32_t>(begin);
      results_.kept += kernels::host::select_band<T>(indices, values, hits, band, indices, values, nullptr, 0);
    }
  }
  /// Picks k random entries of x, as `draw` determines. `scales_up`: multiplies each by the size of its stratum, for an unbiased
  /// mean.
  void pick(const T* x, std::int64_t count, std::int64_t k, const Draw& draw, bool scales_up, Entries& to) {
    const compress::Strata strata{count, k};
    compress::stratum_places(strata, draw, to.indices.data());
    for (std::int64_t i = 0; i < k; ++i)
      to.values[i] = scales_up ? x[to.indices[i]] * static_cast<T>(strata.size(i)) : x[to.indices[i]];
  }
  /// Returns the values in host memory, valid until the next call.
  task<const T*> on_host(const Entries& entries, std::int64_t /*count*/) { co_return entries.values.data(); }

  void settle(T* residual, SparseVector<T> entries, SparseVector<T> taken) {
    threads_.run_ranges(entries.count, least_entries, 1, [&](PartRange mine) {
      if (mine.count() == 0) return;
      const auto all = taken.index_span();
      const auto first = std::lower_bound(all.begin(), all.end(), entries.indices[mine.begin]);
      const auto last = std::upper_bound(first, all.end(), entries.indices[mine.end - 1]);
      kernels::host::settle(residual, entries.indices + mine.begin, entries.values + mine.begin, mine.count(),
                            taken.indices + (first - all.begin()), last - first);
    });
  }
  /// `spare` must have room for as many values as there are entries.
  void roll_back(const T* gradient, T* residual, std::int64_t count, SparseVector<T> held, Key<T> keep_old, Entries& /*spare*/) {
    kernels::host::roll_back(gradient, residual, count, held.indices, held.values, held.count, keep_old);
  }
  /// Computes y += x.
  void add(const T* x, T* y, std::int64_t count) { add_values(threads_, x, y, count); }
  void waxpby(T a, const T* x, T b, const T* y, T* out, std::int64_t count) {
    over(count, [=](PartRange mine) {
      kernels::host::waxpby(a, x + mine.begin, b, y != nullptr ? y + mine.begin : nullptr, out + mine.begin, mine.count());
    });
  }
  void rescale(T* x, std::int64_t count, T factor) {
    over(count, [=](PartRange mine) { kernels::host::rescale(x + mine.begin, mine.count(), factor); });
  }
  /// Computes out = x. The two must not overlap.
  void narrow(const T* x, T* out, std::int64_t count) { copy_values(threads_, x, out, count); }
  /// Sets `dense` to 0 at those of the sorted entries that are also among the sorted `taken`.
  void clear_taken(T* dense, SparseVector<T> entries, SparseVector<T> taken) {
    kernels::host::clear_taken(dense, entries.indices, entries.count, taken.indices, taken.count);
  }
  void fill_zero(T* x, std::int64_t count) {
    over(count, [=](PartRange mine) { kernels::host::fill_zero(x + mine.begin, mine.count()); });
  }
  /// Fills all of `dense` with the sorted entries, and zeros elsewhere.
  void densify(T* dense, std::int64_t count, SparseVector<T> entries) {
    over(count, [=](PartRange mine) {
      const SparseVector<T> part = entries_between(entries, mine.begin, mine.end);
      kernels::host::densify(dense, mine.begin, mine.end, part.indices, part.values, part.count);
    });
  }
  /// Adds the entries to `dense`. They form runs of ascending indices, without duplicates in a run. `runs` holds the ends of the
  /// runs; it is empty for one run.
  void scatter_add(T* dense, SparseVector<T> entries, std::span<const std::int64_t> /*runs*/) {
    kernels::host::scatter_add(dense, entries.indices, entries.values, entries.count);
  }
  void round(wire::Wire wire, SparseVector<T> entries, T* rounded) {
    wire::round_values(wire.values, entries.values, rounded, entries.count, wire.halvings);
  }
  /// Adds to dense[index] what rounding took from each sorted entry whose index is among the sorted `taken`. `rounded` are the
  /// values after rounding.
  void return_rounded(wire::Wire /*wire*/, T* dense, SparseVector<T> entries, const T* rounded, SparseVector<T> taken) {
    for (std::int64_t i = 0, t = 0; i < entries.count && t < taken.count;) {
      const std::uint32_t index = entries.indices[i], taken_index = taken.indices[t];
      if (index == taken_index && std::isfinite(rounded[i])) dense[index] += entries.values[i] - rounded[i];
      i += index <= taken_index;
      t += taken_index <= index;
    }
  }

 private:
  /// Elements per block. A block is summed up just before it is compensated, so that it is read from memory once.
  static constexpr std::int64_t block = 16384;
  /// Smallest parts that pay for waking a thread, which takes some ten microseconds: elements of a pass that selects, elements of a
  /// pass that only moves data, and entries.
  static constexpr std::int64_t least_selected = 8 * block, least_moved = 16 * block, least_entries = 32768;

  /// The arguments of compensate() for one range.
  struct Pass {
    const T* gradient;
    T* residual;
    Key<T> floor, keep_old;
    Summary summary;
  };
  /// The sums of one block.
  struct Sums {
    Moments<T> moments;
    Exceedances<T> exceedances;
  };
  /// What one of several parts has found. Part 0 writes its entries directly to the final place.
  struct Find {
    Entries entries;
    std::int64_t room = 0, hits = 0;
    [[nodiscard]] std::int64_t stored() const { return std::min(hits, room); }
  };

  [[nodiscard]] Band<T> band_of(const Wanted<T>& wanted) const {
    return wanted.largest >= 0 ? band_of_largest(results_.kth, wanted.largest) : wanted.band;
  }
  [[nodiscard]] PartRange range(int part) const { return part_range(count_, block, part, parts_); }
  template <class Body>
  void over(std::int64_t count, const Body& body) const {
    threads_.run_ranges(count, least_moved, block, body);
  }

  /// Compensates `range`, which must begin at a block. Calls note(block, sums) for each block in order. Returns the hits.
  template <class Note>
  static std::int64_t compensate_range(const Pass& pass, PartRange range, Entries& out, std::int64_t capacity, const Note& note) {
    std::int64_t hits = 0, stored = 0;
    for (std::int64_t begin = range.begin; begin < range.end;) {
      const std::int64_t size = pass.summary != Summary::none ? std::min(block, range.end - begin) : range.count();
      const T* const g = pass.gradient + begin;
      T* const r = pass.residual != nullptr ? pass.residual + begin : nullptr;
      if (pass.summary != Summary::none) note(begin / block, sums_of(pass.summary, g, r, size));
      std::uint32_t* const indices = out.indices.data() + stored;
      T* const values = out.values.data() + stored;
      hits += r != nullptr
                  ? kernels::host::compensate_select(g, r, size, pass.floor, pass.keep_old, indices, values, capacity - stored)
                  : kernels::host::select(g, size, pass.floor, indices, values, capacity - stored);
      const std::int64_t before = stored;
      stored = std::min(hits, capacity);
      for (std::int64_t i = before; begin > 0 && i < stored; ++i) out.indices[i] += static_cast<std::uint32_t>(begin);
      begin += size;
    }
    return hits;
  }

  /// Joins the entries of all parts, as if one thread had found them. Entries without room go to the residual, like entries beyond
  /// the capacity. Returns the hits.
  std::int64_t gather(Entries& out, std::int64_t capacity, T* residual, Key<T> keep_old) {
    std::int64_t hits = 0;
    for (const Find& find : finds_) hits += find.hits;
    threads_.run(hits >= least_entries ? parts_ : 1, [&](int of) {
      std::int64_t before = finds_[0].hits;
      for (int part = 1; part < parts_; ++part) {
        const Find& find = finds_[static_cast<std::size_t>(part)];
        if (hits < least_entries || part == of) append(find, std::min(before, capacity), capacity, out, residual, keep_old);
        before += find.hits;
      }
    });
    return hits;
  }
  static void append(const Find& find, std::int64_t at, std::int64_t capacity, Entries& out, T* residual, Key<T> keep_old) {
    const Entries& from = find.entries;
    const std::int64_t stored = find.stored(), taken = std::min(stored, capacity - at);
    std::copy_n(from.indices.data(), taken, out.indices.data() + at);
    std::copy_n(from.values.data(), taken, out.values.data() + at);
    for (std::int64_t i = taken; residual != nullptr && i < stored; ++i) {
      const Key<T> key = key_of(from.values[i]);
      if (key >= keep_old && key < key_infinity<T>) residual[from.indices[i]] = from.values[i];
    }
  }

  [[nodiscard]] static Sums sums_of(Summary summary, const T* gradient, const T* residual, std::int64_t size) {
    Sums sums;
    if (summary == Summary::moments)
      sums.moments = kernels::host::moments(gradient, residual, size);
    else
      sums.exceedances = kernels::host::exceedances(gradient, residual, size, Key<T>{0});
    return sums;
  }
  void add_up(const Sums& part) {
    Moments<T>& m = results_.moments;
    m = {m.count + part.moments.count, m.sum + part.moments.sum, m.sum_squares + part.moments.sum_squares,
         std::max(m.largest, part.moments.largest)};
    Exceedances<T>& e = results_.exceedances;
    e = {e.count + part.exceedances.count, e.sum_magnitudes + part.exceedances.sum_magnitudes,
         std::max(e.largest, part.exceedances.largest)};
  }

  Threads threads_;
  int parts_ = 1;  // of passes over all elements
  std::int64_t count_ = 0;
  // Used with several parts:
  Buffer<Sums> sums_;  // per block
  std::vector<Find> finds_;
  Results<T> results_;
};

}  // namespace weir
