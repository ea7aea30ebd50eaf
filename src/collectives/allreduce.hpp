// allreduce.hpp: what an allreduce algorithm is, and the registry of all of them. One file and one row per algorithm.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <weir/weir.hpp>

#include "async/channel.hpp"
#include "async/task.hpp"

namespace weir {

/// A sorted sparse vector. Not owned.
template <class T>
struct SparseVector {
  const std::uint32_t* indices = nullptr;
  const T* values = nullptr;
  std::int64_t count = 0;
  [[nodiscard]] std::span<const std::uint32_t> index_span() const { return {indices, static_cast<std::size_t>(count)}; }
};

/// What an algorithm is built for; everything it needs to allocate once.
struct AllreduceProblem {
  std::int64_t count = 0;          ///< n
  std::int64_t largest_k = 0;      ///< largest k of any iteration
  std::int64_t largest_local = 0;  ///< most entries a rank contributes in one iteration
  int rank = 0;
  int ranks = 1;
  double divisor = 1;  ///< delivered values are divided by this
  AllreduceConfig config;
};

/// How a sparse exchange ended, the same on every rank but for `vector`'s address.
template <class T>
struct SparseOutcome {
  std::uint64_t fault = 0;  ///< the largest fault any rank announced; not 0: nothing was exchanged
  SparseVector<T> update;   ///< owned by the algorithm until its next run
  bool rethresholded = false;
  bool recut = false;
  bool balanced = false;
};

/// In place: `data` becomes the sum over all ranks divided by the divisor, bitwise the same on every rank.
template <class T>
class DenseAllreduce {
 public:
  virtual ~DenseAllreduce() = default;
  virtual task<void> run(Channel channel, T* data) = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// Sums the ranks' sparse vectors and delivers about k of the largest entries of the sum. `fault` is this rank's own; every rank
/// learns the largest before anything else is exchanged.
template <class T>
class SparseAllreduce {
 public:
  virtual ~SparseAllreduce() = default;
  virtual task<SparseOutcome<T>> run(Channel channel, SparseVector<T> local, std::int64_t k, std::uint64_t fault) = 0;
  virtual void reset() = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
};

/// One row of the registry. Either the dense or the sparse factories are set.
struct AllreduceRow {
  template <class Algorithm>
  using Factory = std::unique_ptr<Algorithm> (*)(const AllreduceProblem&);

  std::string_view name;
  std::string_view description;
  Factory<DenseAllreduce<float>> dense_float32 = nullptr;
  Factory<DenseAllreduce<double>> dense_float64 = nullptr;
  Factory<SparseAllreduce<float>> sparse_float32 = nullptr;
  Factory<SparseAllreduce<double>> sparse_float64 = nullptr;

  [[nodiscard]] bool sparse() const { return sparse_float32 != nullptr; }
  template <class T>
  [[nodiscard]] std::unique_ptr<DenseAllreduce<T>> make_dense(const AllreduceProblem& problem) const {
    if constexpr (sizeof(T) == 4)
      return dense_float32(problem);
    else
      return dense_float64(problem);
  }
  template <class T>
  [[nodiscard]] std::unique_ptr<SparseAllreduce<T>> make_sparse(const AllreduceProblem& problem) const {
    if constexpr (sizeof(T) == 4)
      return sparse_float32(problem);
    else
      return sparse_float64(problem);
  }
};

[[nodiscard]] std::span<const AllreduceRow> allreduce_registry();
/// Throws Error(WEIR_ERR_ARGUMENT) listing the known names.
[[nodiscard]] const AllreduceRow& find_allreduce(std::string_view name);

// One factory per algorithm file.
template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_ring(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<DenseAllreduce<T>> make_dense_rabenseifner(const AllreduceProblem& problem);
template <class T>
std::unique_ptr<SparseAllreduce<T>> make_oktopk(const AllreduceProblem& problem);

}  // namespace weir
