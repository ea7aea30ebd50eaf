// selftest_oracle.hpp: computes what an allreduce must deliver on the ranks of a job. Slow and obvious: MPI's own collectives and
// plain sorts.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "collectives/allreduce.hpp"
#include "collectives/node_shards.hpp"
#include "collectives/switch_groups.hpp"

namespace weir::cli {

/// The oracle of one algorithm with exact selection and error feedback. Collective over MPI_COMM_WORLD. Gradients must be whole
/// numbers whose sums float32 can hold, so that the order of summation does not matter.
class AllreduceOracle {
 public:
  AllreduceOracle(const AllreduceRow& row, const Topology& topology, std::int64_t count);
  ~AllreduceOracle();
  AllreduceOracle(const AllreduceOracle&) = delete;
  AllreduceOracle& operator=(const AllreduceOracle&) = delete;

  /// Delivers k entries of the gradients plus residuals. Dense algorithms deliver everything.
  void step(std::span<const float> gradient, std::int64_t k);
  /// Returns what step() has delivered, for all elements, not averaged. Same on all ranks.
  [[nodiscard]] const std::vector<float>& delivered() const { return delivered_; }
  /// Returns this rank's residual: of all elements, or of its shard.
  [[nodiscard]] const std::vector<float>& residual() const { return residual_; }

 private:
  using Sparse = std::map<std::uint32_t, float>;

  void step_sparse(std::span<const float> gradient, std::int64_t k, std::span<float> update);
  /// Leaves in `chosen` the entries that this rank's group has selected.
  void reduce_by_switch(std::vector<std::uint32_t>& chosen, std::int64_t k, std::span<float> update);
  [[nodiscard]] Sparse reduce_by_tree(Sparse mine, std::int64_t k, std::vector<Sparse>& dropped) const;

  const AllreduceRow& row_;
  ShardMap shards_;
  bool sharded_;
  MPI_Comm group_ = MPI_COMM_NULL;  ///< the ranks that this one reduces with: all, or the owners of its shard
  MPI_Comm node_ = MPI_COMM_NULL;
  std::shared_ptr<const SwitchGroups> switches_;  ///< null: the group reduces in one step
  MPI_Comm switch_members_ = MPI_COMM_NULL, counterparts_ = MPI_COMM_NULL;
  std::int64_t iteration_ = 0, switch_iteration_ = 0;
  std::vector<float> delivered_, residual_;
};

/// Returns the indices of the k largest nonzero magnitudes, ascending. Ties go to the lowest index.
[[nodiscard]] std::vector<std::uint32_t> largest_entries(std::span<const float> values, std::int64_t k);

}  // namespace weir::cli
