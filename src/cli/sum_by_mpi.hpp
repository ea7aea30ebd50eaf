// sum_by_mpi.hpp: exact sparse sums as a program would write them with MPI alone, to compare with.
#pragma once

#include <weir/mpi.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace weir::cli {

template <class T>
[[nodiscard]] MPI_Datatype mpi_type() {
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (std::is_same_v<T, std::int32_t>) return MPI_INT32_T;
  return MPI_INT64_T;
}

/// Adds up the entries of all ranks of MPI_COMM_WORLD. Entries are sorted by index, none twice. Calls are collective.
template <class T>
class SumByMpi {
 public:
  static constexpr std::int64_t most_entries = (std::int64_t{1} << 30) - 2;  ///< of all ranks together: MPI counts in int

  /// `count`: elements of the dense array.
  SumByMpi(int ranks, std::int64_t count) : count_(count), counts_(static_cast<std::size_t>(ranks)), begins_(counts_.size() + 1) {}
  ~SumByMpi();
  SumByMpi(const SumByMpi&) = delete;
  SumByMpi& operator=(const SumByMpi&) = delete;

  /// Gathers all lists by MPI_Allgatherv, and merges neighbours until one list is left: the sum on every rank.
  void gather_and_merge(const std::vector<std::int32_t>& indices, const std::vector<T>& values);
  /// Gathers all lists by MPI_Allgatherv, and adds them to `dense`, which is 0 first.
  void gather_and_add(const std::vector<std::int32_t>& indices, const std::vector<T>& values, std::vector<T>& dense);
  /// Reduces run-length codes to rank 0 by MPI_Reduce with an operation of its own, and sends the sum to all by MPI_Bcast. A code
  /// is the number of runs, then for each run its first index and length, and its values. The sum becomes a list on every rank.
  void reduce_runs(const std::vector<std::int32_t>& indices, const std::vector<T>& values);

  /// Returns how many entries the last gather_and_merge or reduce_runs has left on this rank.
  [[nodiscard]] std::int64_t entries() const { return entries_; }

 private:
  void gather(const std::vector<std::int32_t>& indices, const std::vector<T>& values);
  void make_operation(std::int64_t words);

  std::int64_t count_;
  std::vector<int> counts_, begins_;
  std::vector<std::int32_t> all_indices_, merged_indices_;
  std::vector<T> all_values_, merged_values_;
  std::vector<std::int64_t> code_, sum_code_;
  MPI_Datatype code_type_ = MPI_DATATYPE_NULL;
  MPI_Op add_codes_ = MPI_OP_NULL;
  std::int64_t code_words_ = 0, entries_ = 0;
};

}  // namespace weir::cli
