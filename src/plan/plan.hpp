// plan.hpp: gradient in, update out: compensate, select, exchange, apply; and the state that lives on.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "base/state.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/asynchronous_call.hpp"
#include "communicator/input_error.hpp"
#include "communicator/leases.hpp"
#include "plan/step_outcome.hpp"

namespace weir::detail {

/// A sparse, or, without indices, a dense vector in the plan's memory space, of the type in which it sums.
struct AnyVector {
  const std::uint32_t* indices = nullptr;
  const void* values = nullptr;
  std::int64_t count = 0;
};

/// One plan, whatever its element type.
class PlanImpl : public AsynchronousCall {
 public:
  /// With the counters of all `candidates`, the first of which is in force.
  PlanImpl(std::shared_ptr<CommunicatorState> communicator, std::span<const AllreduceConfig> candidates, Lease lease);

  /// One of `dense` and `sparse_only` is the gradient; null pointers, wrong sizes and wrong memory are reported by all ranks.
  void start(void* dense, const void* sparse_only, std::int64_t count, DataType type, void* stream = nullptr) {
    begin(dense, sparse_only, count, type, stream, false);
  }
  /// The same, until it has finished.
  void run_to_end(void* dense, const void* sparse_only, std::int64_t count, DataType type, void* stream = nullptr) {
    begin(dense, sparse_only, count, type, stream, true);
    wait();
  }
  virtual void reset() = 0;
  /// Not while a run is in flight. As AllreducePlan::scale_residual.
  virtual void scale(double factor) = 0;
  /// All that reset() resets. Throws Error(WEIR_ERR_BUSY) while a run is in flight. A state can be restored to a plan that was made
  /// with the same configuration and candidates by the same rank of as many: WEIR_ERR_ARGUMENT where the state shows that it was
  /// not. Restoring is a rank's own affair: see to it that all ranks do, or none.
  void visit_state(StateVisitor& visitor);
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  [[nodiscard]] virtual AnyVector update() const = 0;
  [[nodiscard]] virtual AnyVector residual() const = 0;
  [[nodiscard]] virtual std::int64_t residual_begin() const = 0;
  /// See AllreducePlan.
  [[nodiscard]] std::int64_t encoded_bytes();
  std::int64_t encode(std::span<const float> gradient, std::span<std::byte> out);
  /// Ends the plan for its owner: a run in flight is finished for the other ranks, and delivers nothing densely any more. As
  /// detail::retire.
  [[nodiscard]] bool retire() noexcept;
  /// Whether the caller's gradient may still be touched.
  [[nodiscard]] bool has_owner() const { return has_owner_; }
  /// Whether the caller's gradient is there until the run has finished.
  [[nodiscard]] bool caller_waits() const { return caller_waits_; }
  /// What the algorithm of `candidate` is built for.
  [[nodiscard]] ExchangeSpec spec_of(const AllreduceConfig& candidate) const;
  /// Returns how many runs have delivered. Schedules of density go by it where a rank encodes.
  [[nodiscard]] std::int64_t delivered_runs() const { return state_.delivered_runs; }
  /// Returns how many of these were runs of all ranks together: those not encoded. Schedules of density go by it in such runs.
  [[nodiscard]] std::int64_t common_runs() const { return state_.delivered_runs - state_.encoded_runs; }

  AllreduceConfig config;   ///< in force: `algorithm` and wire settings are what `auto` stands for at present
  std::string explanation;  ///< of the choice of algorithm, then what the plan itself has to say
  Statistics statistics;
  /// See AllreducePlan.
  [[nodiscard]] std::int64_t counter(std::string_view name) const;

 protected:
  void completed() override;
  void forget_runs() {
    statistics = {};
    state_ = {};
    for (Counter& counter : counters_) counter.runs = 0;
  }
  /// What the plan's steps have, and whose turn it is.
  virtual void visit_steps(StateVisitor& visitor) = 0;
  virtual task<void> execute(void* dense, const void* sparse_only, ErrorReport input_error) = 0;
  /// Whether the network reads and writes the caller's gradient during the next run. The same on all ranks.
  [[nodiscard]] virtual bool in_place() const = 0;
  /// What encodes this plan's gradients, and most bytes of one. Throws Error(WEIR_ERR_STATE) where the plan cannot encode.
  virtual std::int64_t prepare_encoding() = 0;
  /// After that. All is as a run needs it; returns the bytes.
  virtual std::int64_t encode_run(const float* gradient, std::byte* out) = 0;
  /// What is wrong with the memory that a run was given.
  [[nodiscard]] virtual InputError memory_error(const void* gradient, void* stream) = 0;
  /// Says what happens to a run whose ranks have agreed on this error; 0: on no error.
  [[nodiscard]] Verdict verdict_of(ErrorReport input_error) const;
  /// Takes the outcome of a run into the statistics, and counts the run. Throws the error of one that is refused.
  void conclude(const StepOutcome& outcome);

 private:
  /// What lives on, besides that of steps.
  struct State {
    std::int64_t runs = 0;
    std::int64_t delivered_runs = 0;
    std::int64_t encoded_runs = 0;  ///< of these

    void visit(StateVisitor& visitor);
  };

  struct Counter {
    std::string_view name;
    std::int64_t runs = 0;
  };

  [[nodiscard]] std::vector<Counter>::iterator find_counter(std::string_view name);
  /// See UpdateInfo.
  [[nodiscard]] double residual_norm() const;
  void begin(void* dense, const void* sparse_only, std::int64_t count, DataType type, void* stream, bool caller_waits);

  Lease lease_;
  State state_;
  std::vector<Counter> counters_;
  bool has_owner_ = true;
  bool caller_waits_ = false;
};

/// Collective; see AllreducePlan.
[[nodiscard]] std::shared_ptr<PlanImpl> make_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config);

}  // namespace weir::detail
