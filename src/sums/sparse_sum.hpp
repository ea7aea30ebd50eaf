// sparse_sum.hpp: the implementation of a SparseSum, of any type.
#pragma once

#include <memory>
#include <weir/sums.hpp>

#include "communicator/asynchronous_call.hpp"
#include "communicator/leases.hpp"
#include "sums/sum_row.hpp"

namespace weir::detail {

/// See SparseSum for the contract of each call.
class SparseSumImpl : public AsynchronousCall {
 public:
  virtual void start(const SumInput& mine, const SumOutput& output, bool scatters) = 0;
  virtual void refuse(std::string_view why) = 0;
  /// What result() returns, of the object's type.
  struct RawView {
    const std::int64_t* indices = nullptr;
    const void* values = nullptr;
    std::int64_t count = 0;
  };
  [[nodiscard]] virtual RawView result() const = 0;
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  [[nodiscard]] std::int64_t range_begin(int rank) const;

  SparseSumConfig config;
  SparseSumStatistics statistics;

 protected:
  SparseSumImpl(std::shared_ptr<CommunicatorState> communicator, const SparseSumConfig& configuration, Lease lease);
  [[nodiscard]] SharedMemory leased_memory() const { return lease_.memory(); }

 private:
  Lease lease_;
};

/// Collective.
[[nodiscard]] std::shared_ptr<SparseSumImpl> make_sparse_sum(const std::shared_ptr<CommunicatorState>& comm,
                                                             const SparseSumConfig& config);

}  // namespace weir::detail
