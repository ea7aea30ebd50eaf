// weir/sums.hpp: exact sums of arrays that are mostly zero, without sending the zeros: for simulation codes that assemble, deposit
// or count into a long array, of which each rank touches a small part.
//
//   weir::SparseSum sum(comm, {.count = n, .expected_entries = most});
//   sum.run(weir::SumInput::entries(indices, values));                  // this rank's entries, in any order
//   weir::SumView<double> total = sum.result<double>();                 // the sum of all ranks, on every rank, by index
//   sum.run(weir::SumInput::entries(indices, values), weir::SumOutput::add(field));   // the same, added to a dense array
//
// Nothing is selected, rounded or kept for later. The sum is exact up to the rounding of its additions, which happen in a fixed
// order.
#ifndef WEIR_SUMS_HPP
#define WEIR_SUMS_HPP

#include <concepts>
#include <ranges>
#include <span>
#include <type_traits>
#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class SparseSumImpl;

template <class T>
inline constexpr SumType sum_type_of = std::is_same_v<T, float>    ? SumType::float32
                                       : std::is_same_v<T, double> ? SumType::float64
                                       : sizeof(T) == 4            ? SumType::int32
                                                                   : SumType::int64;
template <class T>
concept SumValue = std::same_as<T, float> || std::same_as<T, double> ||
    (std::signed_integral<T> && (sizeof(T) == 4 || sizeof(T) == 8));
template <class T>
concept SumIndex = std::signed_integral<T> &&(sizeof(T) == 4 || sizeof(T) == 8);
template <class Range>
concept SumValues = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    SumValue<std::remove_cv_t<std::ranges::range_value_t<Range>>>;
template <class Range>
concept SumIndices = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    SumIndex<std::remove_cv_t<std::ranges::range_value_t<Range>>>;
}  // namespace detail

/// What one rank gives to a sum. It only refers to the caller's arrays, which are in host memory and aligned to their types. They
/// are read within start (or run), and not later.
struct SumInput {
  const void* values = nullptr;
  std::int64_t count = 0;  ///< number of values
  SumType type = SumType::float64;
  const void* indices = nullptr;  ///< as many as values; null: `values` is a whole array, whose zeros are skipped
  std::int64_t index_count = 0;
  int index_bytes = 0;  ///< 4 or 8: int32 or int64; 0: a whole array

  /// Gives entries: value i is added at indices[i]. Indices are 32 or 64 bits long and signed, from 0 to n - 1, in any order. One
  /// may come several times: these entries are combined first, in the order given. Ascending indices without repetition are faster.
  /// An entry of 0 is an entry.
  template <detail::SumIndices Indices, detail::SumValues Values>
  [[nodiscard]] static SumInput entries(const Indices& indices, const Values& values) {
    return {std::ranges::data(values),
            static_cast<std::int64_t>(std::ranges::size(values)),
            detail::sum_type_of<std::remove_cv_t<std::ranges::range_value_t<Values>>>,
            std::ranges::data(indices),
            static_cast<std::int64_t>(std::ranges::size(indices)),
            sizeof(std::ranges::range_value_t<Indices>)};
  }
  /// Gives a whole array of n elements. Its elements that are not 0 are entries (-0.0 is 0; NaN is not).
  template <detail::SumValues Values>
  [[nodiscard]] static SumInput dense(const Values& values) {
    return {std::ranges::data(values), static_cast<std::int64_t>(std::ranges::size(values)),
            detail::sum_type_of<std::remove_cv_t<std::ranges::range_value_t<Values>>>};
  }
};

/// Where the sum also goes, besides result(): an array of this rank, in host memory and aligned to its type. It may be another one
/// on every rank, or on some ranks only. It has n elements, or with run_reduce_scatter as many as this rank's range. It is touched
/// while a call of the communicator makes progress, and never once the operation has ended.
struct SumOutput {
  void* dense = nullptr;  ///< null: there is no array
  std::int64_t count = 0;
  SumType type = SumType::float64;
  bool adds = false;

  /// Overwrites the array: elements without an entry become 0, with every operation.
  template <detail::SumValues Values>
  [[nodiscard]] static SumOutput write(Values&& dense) {
    return {std::ranges::data(dense), static_cast<std::int64_t>(std::ranges::size(dense)),
            detail::sum_type_of<std::ranges::range_value_t<Values>>, false};
  }
  /// Combines each entry of the sum into its element, which comes first, by the operation; sums are added, and rounded as usual.
  /// Elements without an entry stay.
  template <detail::SumValues Values>
  [[nodiscard]] static SumOutput add(Values&& dense) {
    SumOutput output = write(dense);
    output.adds = true;
    return output;
  }
};

/// Entries of a sum, by ascending index, one for every index that any rank has. The object owns them; they are valid until its next
/// start.
template <class T>
struct SumView {
  std::span<const std::int64_t> indices;
  std::span<const T> values;
};

/// Sums of arrays of `count` elements, of which every rank gives the entries that it has. Each run is a sum of its own; entries may
/// be other ones each time. An object has one run at a time; many may be in flight at once, started in any order.
///
/// Order. For one index, the entries of a rank are combined first, in the order given. Then ranks are combined, lower ranks on the
/// left, along a binary tree that depends only on the number of ranks P. With 2^m the largest power of two that is not above P,
/// first pairs 0 + 1, 2 + 3 and so on are made until 2^m parts are left; these are combined with their neighbours, over and over:
/// for P = 4 (0 + 1) + (2 + 3), for P = 5 ((0 + 1) + 2) + (3 + 4). A rank without an entry is left out. So the result has the same
/// bits on every rank, in every run, with every algorithm, in run and in run_reduce_scatter, except for which NaN. With another
/// number of ranks, floating-point sums may round in another way; integer sums, which wrap around, do not depend on it, nor do min
/// and max, except for which sign of zero comes out.
///
/// SumOperation::reproducible_sum has no order. For floating point, all entries of an index come to one rank as they are and are
/// added there, so that the result depends on them alone: neither on the number of ranks, nor on which rank gives which entry, nor
/// on zeros. With at most two that are not zero, it is their rounded sum. With N, let p be the power of two of the largest
/// magnitude: the error is at most N 2^-85 p before the last rounding (float32 is rounded to float64 first). A sum of zeros is +0,
/// NaN is quiet NaN, and so are infinities of both signs. An index has at most 2^34 entries.
///
/// SumOperation::checked_sum is for integers. If any addition on the way overflows, even if a later one would come back, the run
/// ends in the same Error(WEIR_ERR_ARGUMENT) on all ranks, which names an index. So does an element of an output array that `add`
/// would overflow. Nothing has changed then: no array on any rank is touched, and the result is empty.
///
/// Memory grows with the entries of all ranks together: about 2 (8 + size of an element) bytes for each entry of the ranks' lists
/// (or with split and hash of a rank's share), and as much for each entry of the result. If ranks give more entries than expected,
/// memory grows, and rank 0 logs it once. Without that, runs with a named algorithm allocate nothing, with these exceptions:
/// `auto` may allocate when it first changes to another algorithm. A reduce-scatter, a reproducible sum, `hash`, `blocks`,
/// `hierarchical`, and `split` on more than 16 ranks may allocate when a rank's part has more entries than before, and
/// `hierarchical` in its second run. What has grown stays.
///
/// Wrong arguments on one rank are the same Error(WEIR_ERR_ARGUMENT) on all ranks, and so is a lack of memory (WEIR_ERR_MEMORY).
/// Nothing has changed then, and the next run is as any other. Thread-safety: as for plans.
class SparseSum {
 public:
  /// Collective. Allocates memory for the expected entries. Throws on all ranks if the ranks' configurations differ.
  SparseSum(const Communicator& comm, const SparseSumConfig& config);
  SparseSum(SparseSum&&) noexcept = default;
  SparseSum& operator=(SparseSum&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator. Finishes a run in flight, since the other ranks wait for
  /// it; the run then no longer touches the caller's array.
  ~SparseSum() = default;

  /// Collective, blocking. Every rank gets the sum over all indices.
  void run(const SumInput& mine, const SumOutput& output = {});
  /// Collective, blocking. Each rank gets the part of the sum whose indices are in its range, range(rank). Output arrays have the
  /// elements of the range alone.
  void run_reduce_scatter(const SumInput& mine, const SumOutput& output = {});
  /// Collective, nonblocking. Reads `mine` here, and communicates in test and wait. If ranks disagree on which of the two is
  /// started, all throw Error(WEIR_ERR_MISMATCH).
  [[nodiscard]] Operation start(const SumInput& mine, const SumOutput& output = {});
  [[nodiscard]] Operation start_reduce_scatter(const SumInput& mine, const SumOutput& output = {});
  /// Collective: takes the place of a start or run on a rank that has no valid arguments for it. Bindings of other languages call
  /// it if their checks fail. The run ends with Error(WEIR_ERR_ARGUMENT) on all ranks; its text names the rank and says `why`.
  [[nodiscard]] Operation refuse(std::string_view why);

  /// Returns the sum of the last run, or with reduce-scatter this rank's part; empty if it ended in an error. T is float, double,
  /// std::int32_t or std::int64_t. Throws Error(WEIR_ERR_ARGUMENT) if that is not the object's type, and Error(WEIR_ERR_BUSY) while
  /// a run is in flight.
  template <class T>
  [[nodiscard]] SumView<T> result() const;
  /// Returns the first index of a rank's range; that of rank P is n. Ranges follow one another, and differ by at most one in size.
  [[nodiscard]] std::int64_t range_begin(int rank) const;
  [[nodiscard]] const SparseSumConfig& config() const;          ///< in force
  [[nodiscard]] const SparseSumStatistics& statistics() const;  ///< of the last run
  /// Returns the number of bytes that this object holds on this rank, besides the caller's arrays.
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  detail::Owner<detail::SparseSumImpl> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
