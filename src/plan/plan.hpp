// plan.hpp: gradient in, update out: compensate, select, exchange, apply; and the state that is kept between runs.
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

/// A sparse vector, or a dense one if `indices` is nullptr. It lies in the plan's memory space and has the type in which the plan
/// sums.
struct AnyVector {
  const std::uint32_t* indices = nullptr;
  const void* values = nullptr;
  std::int64_t count = 0;
};

/// One plan, independent of its element type.
class PlanImpl : public AsynchronousCall {
 public:
  /// Has the counters of all `candidates`. The first candidate is in force.
  PlanImpl(std::shared_ptr<CommunicatorState> communicator, std::span<const AllreduceConfig> candidates, Lease lease);

  /// Starts a run. The gradient is either `dense` or `sparse_only`. All ranks report null pointers, wrong sizes and wrong memory.
  void start(void* dense, const void* sparse_only, std::int64_t count, DataType type, void* stream = nullptr) {
    begin(dense, sparse_only, count, type, stream, false);
  }
  /// Does the same as start(), and waits until the run has finished.
  void run_to_end(void* dense, const void* sparse_only, std::int64_t count, DataType type, void* stream = nullptr) {
    begin(dense, sparse_only, count, type, stream, true);
    wait();
  }
  virtual void reset() = 0;
  /// See AllreducePlan::scale_residual. Must not be called while a run is in flight.
  virtual void scale(double factor) = 0;
  /// Visits all that reset() resets. Throws Error(WEIR_ERR_BUSY) while a run is in flight. A state can be restored only to a plan
  /// that the same rank, among the same number of ranks, made with the same configuration and candidates. Throws
  /// Error(WEIR_ERR_ARGUMENT) if the state shows that this was not so. Each rank restores on its own: the caller must ensure that
  /// all ranks restore, or none.
  void visit_state(StateVisitor& visitor);
  [[nodiscard]] virtual std::int64_t memory_bytes() const = 0;
  [[nodiscard]] virtual AnyVector update() const = 0;
  [[nodiscard]] virtual AnyVector residual() const = 0;
  [[nodiscard]] virtual std::int64_t residual_begin() const = 0;
  /// See AllreducePlan.
  [[nodiscard]] std::int64_t encoded_bytes();
  std::int64_t encode(std::span<const float> gradient, std::span<std::byte> out);
  /// Ends the plan for its owner. A run in flight is finished for the sake of other ranks, and no longer writes a dense result. See
  /// detail::retire.
  [[nodiscard]] bool retire() noexcept;
  /// Returns true if the caller's gradient may still be touched.
  [[nodiscard]] bool has_owner() const { return has_owner_; }
  /// Returns true if the caller's gradient stays valid until the run has finished.
  [[nodiscard]] bool caller_waits() const { return caller_waits_; }
  /// Returns the exchange for which the algorithm of `candidate` is built.
  [[nodiscard]] ExchangeSpec spec_of(const AllreduceConfig& candidate) const;
  /// Returns how many runs have delivered. The density schedule counts by it when a rank encodes.
  [[nodiscard]] std::int64_t delivered_runs() const { return state_.delivered_runs; }
  /// Returns how many of these were runs of all ranks together, that is, not encoded. The density schedule counts by it in such
  /// runs.
  [[nodiscard]] std::int64_t common_runs() const { return state_.delivered_runs - state_.encoded_runs; }

  AllreduceConfig config;   ///< in force; `algorithm` and the wire settings are those that `auto` stands for now
  std::string explanation;  ///< the explanation of the choice of algorithm, followed by the plan's own
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
  /// Visits the state of the plan's steps, and the state of the trials.
  virtual void visit_steps(StateVisitor& visitor) = 0;
  virtual task<void> execute(void* dense, const void* sparse_only, ErrorReport input_error) = 0;
  /// Returns true if the network reads and writes the caller's gradient during the next run. The same on all ranks.
  [[nodiscard]] virtual bool in_place() const = 0;
  /// Prepares the encoding of this plan's gradients. Returns the most bytes of one. Throws Error(WEIR_ERR_STATE) if the plan cannot
  /// encode.
  virtual std::int64_t prepare_encoding() = 0;
  /// Encodes one gradient after prepare_encoding(), with the plan's state as a run needs it. Returns the bytes written.
  virtual std::int64_t encode_run(const float* gradient, std::byte* out) = 0;
  /// Returns the error in the memory that the caller gave to a run, if any.
  [[nodiscard]] virtual InputError memory_error(const void* gradient, void* stream) = 0;
  /// Returns what happens to a run whose ranks have agreed on this error. Without an error the run is delivered.
  [[nodiscard]] Verdict verdict_of(ErrorReport input_error) const;
  /// Takes the outcome of a run into the statistics, and counts the run. Throws the error of a refused run.
  void conclude(const StepOutcome& outcome);

 private:
  /// Holds what is kept between runs, besides the state of the steps.
  struct State {
    std::int64_t runs = 0;
    std::int64_t delivered_runs = 0;
    std::int64_t encoded_runs = 0;  ///< of `delivered_runs`

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
