// step.hpp: gradient in, update out, with one algorithm, in either memory; and what a plan and its steps tell each other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/node_shards.hpp"
#include "communicator/caller_memory.hpp"
#include "communicator/communicator.hpp"
#include "compress/compressor.hpp"
#include "contribution/selection_setup.hpp"
#include "plan/encoded.hpp"

namespace weir::detail {

/// The input of a run.
struct StepInput {
  void* dense = nullptr;           ///< the gradient if the update is to overwrite it, else nullptr
  const void* gradient = nullptr;  ///< in any case
  ErrorReport input_error;         ///< the error in it on this rank, if any
  std::int64_t iteration = 0;      ///< of the density schedule
  bool caller_waits = false;       ///< the gradient stays valid until the run has finished
};

/// How the messages of a run ended. The same on every rank except `selected_local`.
struct StepOutcome {
  ErrorReport input_error;  ///< the largest error of any rank; if set, nothing is delivered
  bool sparse = false;      ///< true after an exchange of entries
  std::int64_t k = 0;
  std::int64_t selected_local = 0, selected_global = 0;
  bool rethresholded = false;               ///< the local threshold was evaluated again
  std::span<const CounterInfo> counters{};  ///< of the algorithm
  std::uint32_t counted = 0;                ///< bit i: the run counts for counter i
};

/// What a plan does with an outcome.
enum class Verdict {
  delivered,
  skipped,  ///< the update is 0
  refused   ///< the gradient stays as it is, and the run ends with an error
};

/// A sparse vector, or a dense one if `indices` is nullptr. It lies in the plan's memory space and has the type in which the plan
/// sums.
struct AnyVector {
  const std::uint32_t* indices = nullptr;
  const void* values = nullptr;
  std::int64_t count = 0;
};

/// One algorithm of a plan, and the state kept between its runs. Independent of the element type.
class Step {
 public:
  virtual ~Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  /// Sends and receives all messages of a run. After an exchange of entries the caller's gradient must not be touched until
  /// apply().
  virtual task<StepOutcome> exchange(Channel channel, StepInput input) = 0;
  /// Does the rest of the run, without messages. `has_owner`: the caller's gradient may still be touched.
  virtual void apply(const StepOutcome& outcome, Verdict verdict, bool has_owner, void* dense) = 0;

  /// Prepares runs without messages; see PlanImpl. Returns the most bytes of one encoded gradient.
  std::int64_t prepare_encoding();
  /// Returns how many bytes it has written: 0 if the outcome has an error, and encode_zeros() then writes the message.
  virtual std::int64_t encode(const float* gradient, std::int64_t iteration, std::byte* out, StepOutcome& outcome) = 0;
  std::int64_t encode_zeros(std::byte* out) { return writer_->write_zeros(out); }

  virtual void reset() = 0;
  /// Multiplies by `factor` what is kept of gradients.
  virtual void scale(double factor) = 0;
  /// Visits all that reset() resets, and the description of what it belongs to.
  virtual void visit_state(StateVisitor& visitor) = 0;
  /// Returns true if both steps keep the same state, so that it can be moved. The answer is the same on all ranks.
  [[nodiscard]] bool keeps_the_same(const Step& other) const;
  /// Moves the state of `last`, which keeps the same state, into this step, which must be as new. `last` is as new afterwards.
  virtual void take_residual(Step& last) = 0;
  /// Adds the residual to a whole gradient, in host memory.
  virtual void add_residual(void* gradient) const = 0;

  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  [[nodiscard]] virtual AnyVector update() const = 0;
  [[nodiscard]] virtual AnyVector residual() const = 0;
  /// Return the range of elements of which this rank keeps a residual.
  [[nodiscard]] std::int64_t residual_begin() const { return map_ && owns() ? map_->begin(map_->mine()) : 0; }
  [[nodiscard]] std::int64_t residual_size() const { return !map_ ? config_.count : owns() ? map_->size(map_->mine()) : 0; }
  /// Returns true if the run of that iteration exchanges the gradient in place. The same on all ranks.
  [[nodiscard]] bool in_place(std::int64_t iteration) const { return scheduled(iteration) < 0; }
  [[nodiscard]] const AllreduceConfig& config() const { return config_; }
  [[nodiscard]] virtual Explanation explanation() const = 0;

 protected:
  /// See TypedStep.
  Step(const CommunicatorState& comm, const AllreduceConfig& configuration, const ExchangeSpec& whole, bool in_nodes);

  /// Returns k of an iteration; a negative number for one that is not sparse.
  [[nodiscard]] std::int64_t scheduled(std::int64_t iteration) const;
  /// Returns true if the run of an iteration that is not sparse compresses the gradient.
  [[nodiscard]] bool packs(std::int64_t iteration) const {
    return compressor_ && !row_.sparse() && iteration >= config_.dense_iterations;
  }
  /// Returns how this rank selects what it contributes to `exchange_`.
  [[nodiscard]] SelectionSetup selection() const;
  [[nodiscard]] Draw draw(std::int64_t iteration) const;
  /// Returns false if this rank of a node has no shard: it only passes gradients on and receives the result.
  [[nodiscard]] bool owns() const { return !map_ || map_->mine() >= 0; }
  [[nodiscard]] bool keeps_residual() const { return config_.error_feedback != Feedback::none; }
  [[nodiscard]] bool propagates() const { return config_.non_finite == NonFinite::propagate; }
  /// Returns a text that says why encode() is refused, or an empty one if it is not.
  [[nodiscard]] std::string_view why_not_encoded() const;

  const compress::Compressor compressor_;
  const AllreduceConfig config_;  // in force
  const AllreduceRow& row_;
  const std::optional<ShardMap> map_;  // of the gradient, if the ranks of a node sum theirs first and each keeps a shard's residual
  const ExchangeSpec exchange_;        // of entries: that of this rank's shard if there are shards
  std::optional<encoded::Writer> writer_;  // present once something has been encoded
};

/// Returns the exchange among the owners of `shard`. Shard 0 is the largest.
[[nodiscard]] ExchangeSpec spec_of_shard(const ExchangeSpec& whole, const ShardMap& map, int shard);

/// The memory of a plan: its callers' arrays, and the steps that work there.
class PlanMemory {
 public:
  virtual ~PlanMemory() = default;
  [[nodiscard]] virtual CallerMemory& caller() = 0;
  /// Makes the step of a configuration that names an algorithm. `whole` is the exchange that the step is for, and `channel` that of
  /// the plan's runs. `comm`, what `whole` refers to, and this object must outlive the step.
  [[nodiscard]] virtual std::unique_ptr<Step> make_step(const CommunicatorState& comm, Channel channel,
                                                        const AllreduceConfig& config, ExchangeSpec whole) = 0;
  /// Waits until all work of steps is done.
  virtual void drain() noexcept {}
};

/// Holds the resources that a plan in CUDA memory acquires together with other ranks.
struct DeviceNeeds {
  NcclGroups* nccl = nullptr;  ///< nullptr if the plan does not need NCCL
  bool in_nodes = false;       ///< algorithms that shard can use NCCL for the sums in their nodes
  std::string explanation;     ///< describes how the plan runs
};

/// Collective. `config` is the agreed one, for CUDA memory. Throws the same Error on all ranks if a dense plan cannot have NCCL.
[[nodiscard]] DeviceNeeds connect_device(CommunicatorState& comm, const AllreduceConfig& config, int tag);
/// Makes the memory of a plan on the thread's current GPU. Throws Error(WEIR_ERR_UNSUPPORTED) in a build without CUDA.
[[nodiscard]] std::unique_ptr<PlanMemory> make_device_memory(const DeviceNeeds& needs);

}  // namespace weir::detail
