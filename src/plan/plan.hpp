// plan.hpp: gradient in, update out: compensate, select, exchange, apply; and the state that is kept between runs.
#pragma once

#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "base/state.hpp"
#include "communicator/asynchronous_call.hpp"
#include "communicator/leases.hpp"
#include "plan/step.hpp"
#include "plan/trials.hpp"

namespace weir::detail {

/// What a plan takes of the memory that the ranks of a node share, in bytes of each rank: first what each candidate's row asks for,
/// then the memory of dense steps, which candidates share.
struct SharedUse {
  std::vector<std::int64_t> own;  ///< of each candidate
  // A rank that starts a run may write while others still read what the last run has left. So algorithms that divide the memory in
  // different ways have regions of their own: those that shard, `reproducible`, and those that sum by blocks.
  std::int64_t sharded = 0, reproducible = 0, by_blocks = 0;

  [[nodiscard]] std::int64_t before(std::size_t candidate) const {
    return std::accumulate(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(candidate), std::int64_t{0});
  }
  [[nodiscard]] std::int64_t dense() const { return sharded + reproducible + by_blocks; }
  [[nodiscard]] std::int64_t total() const { return before(own.size()) + dense(); }
};

/// One plan. It has one step, or one for each candidate while automatic choice tries several; the candidate whose turn it is then
/// runs.
class PlanImpl final : public AsynchronousCall {
 public:
  /// Has the counters of all `candidates`. The first candidate is in force. Several are tried in turn. In CUDA memory all of them
  /// must keep a residual of the same elements.
  PlanImpl(std::shared_ptr<CommunicatorState> communicator, std::span<const AllreduceConfig> candidates, Lease lease,
           std::unique_ptr<PlanMemory> memory);
  ~PlanImpl() override { memory_->drain(); }

  /// Starts a run. `dense` is the gradient if the update is to overwrite it, else nullptr. All ranks report null pointers, wrong
  /// sizes and wrong memory.
  void start(void* dense, const void* gradient, std::int64_t count, DataType type, void* stream = nullptr) {
    begin(dense, gradient, count, type, stream, false);
  }
  /// Does the same as start(), and waits until the run has finished.
  void run_to_end(void* dense, const void* gradient, std::int64_t count, DataType type, void* stream = nullptr) {
    begin(dense, gradient, count, type, stream, true);
    wait();
  }
  void reset();
  /// See AllreducePlan::scale_residual. Must not be called while a run is in flight.
  void scale(double factor);
  /// Visits all that reset() resets. Throws Error(WEIR_ERR_BUSY) while a run is in flight. A state can be restored only to a plan
  /// that the same rank, among the same number of ranks, made with the same configuration and candidates. Throws
  /// Error(WEIR_ERR_ARGUMENT) if the state shows that this was not so. Each rank restores on its own: the caller must ensure that
  /// all ranks restore, or none.
  void visit_state(StateVisitor& visitor);
  [[nodiscard]] std::int64_t memory_bytes() const;
  [[nodiscard]] AnyVector update() const { return current_->update(); }
  [[nodiscard]] AnyVector residual() const { return holder().residual(); }
  [[nodiscard]] std::int64_t residual_begin() const { return holder().residual_begin(); }
  /// See AllreducePlan.
  [[nodiscard]] std::int64_t encoded_bytes();
  std::int64_t encode(std::span<const float> gradient, std::span<std::byte> out);
  [[nodiscard]] std::int64_t counter(std::string_view name) const;
  /// Ends the plan for its owner. A run in flight is finished for the sake of other ranks, and no longer writes a dense result. See
  /// detail::retire.
  [[nodiscard]] bool retire() noexcept;

  AllreduceConfig config;   ///< in force; `algorithm` and the wire settings are those that `auto` stands for now
  std::string explanation;  ///< the explanation of the choice of algorithm, followed by the plan's own
  Statistics statistics;

 protected:
  void completed() override;

 private:
  /// Holds what is kept between runs, besides the state of trials and steps.
  struct State {
    std::int64_t runs = 0;
    std::int64_t delivered_runs = 0;  ///< the density schedule counts by it when a rank encodes
    std::int64_t encoded_runs = 0;    ///< of `delivered_runs`

    /// Returns how many runs of all ranks together have delivered. The density schedule counts by it in such runs.
    [[nodiscard]] std::int64_t common_runs() const { return delivered_runs - encoded_runs; }
    void visit(StateVisitor& visitor);
  };

  struct Counter {
    std::string_view name;
    std::int64_t runs = 0;
  };

  /// Returns the exchange for which the algorithm of `candidate` is built.
  [[nodiscard]] ExchangeSpec spec_of(const AllreduceConfig& candidate, const SharedUse& use, std::size_t number) const;
  [[nodiscard]] std::vector<Counter>::iterator find_counter(std::string_view name);
  /// See UpdateInfo.
  [[nodiscard]] double residual_norm() const;
  /// Returns the step that holds the residual: the last candidate until the next has taken it over.
  [[nodiscard]] const Step& holder() const { return *steps_[trials_.leftover().value_or(trials_.turn())]; }

  [[nodiscard]] InputError what_is_wrong(const void* gradient, std::int64_t count, DataType type, void* stream);
  void begin(void* dense, const void* gradient, std::int64_t count, DataType type, void* stream, bool caller_waits);
  task<void> execute(StepInput input);
  void apply(const StepOutcome& outcome, Verdict verdict, void* dense);
  /// Returns what happens to a run whose ranks have agreed on this error. Without an error the run is delivered.
  [[nodiscard]] Verdict verdict_of(ErrorReport input_error) const;
  /// Takes the outcome of a run into the statistics, and counts the run. Throws the error of a refused run.
  void conclude(const StepOutcome& outcome);
  /// Throws Error(WEIR_ERR_STATE) if the plan cannot encode. Returns the most bytes of one encoded gradient.
  std::int64_t prepare_encoding();

  // Candidates take turns.
  void use(std::size_t turn);
  void take_turns();
  task<void> compare();
  void log_times() const;
  void go_on();
  void drop_steps();
  void add_leftover(StepInput& input);
  void end_hand_over(void* result);
  void visit_trials(StateVisitor& visitor, Trials& trials);

  Lease lease_;
  State state_;
  std::vector<Counter> counters_;
  bool has_owner_ = true;  // the caller's gradient may still be touched
  std::unique_ptr<PlanMemory> memory_;
  Trials trials_;
  std::vector<std::uint64_t> times_;  // of all candidates, followed by scratch
  std::vector<std::unique_ptr<Step>> steps_;
  std::string candidates_;  // their names
  Step* current_ = nullptr;
  Buffer<std::byte> gradient_;  // with the residual that is handed on
};

/// Collective; see AllreducePlan.
[[nodiscard]] std::shared_ptr<PlanImpl> make_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config);

}  // namespace weir::detail
