// typed_plan.hpp: a plan for one element type.
#pragma once

#include <memory>
#include <optional>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "kernels/kernels.hpp"
#include "plan/fault.hpp"
#include "plan/local_selector.hpp"
#include "plan/plan.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {

template <class T>
class TypedPlan final : public PlanState {
 public:
  TypedPlan(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, int tag)
      : PlanState(std::move(communicator), configuration, tag) {
    AllreduceProblem problem;
    problem.count = config.count;
    problem.largest_k = weir::largest_k(config);
    problem.largest_local = LocalSelector<T>::most_selected(config.threshold, config.count, problem.largest_k);
    problem.rank = comm->topology.rank();
    problem.ranks = comm->topology.size();
    problem.divisor = config.average ? problem.ranks : 1;
    problem.config = config;

    const AllreduceRow& row = find_allreduce(config.algorithm);
    if (!row.sparse()) {
      dense_ = row.make_dense<T>(problem);
      return;
    }
    sparse_ = row.make_sparse<T>(problem);
    if (config.dense_iterations > 0) dense_ = find_allreduce("dense_ring").make_dense<T>(problem);
    selector_.emplace(typename LocalSelector<T>::Setup{config.count, problem.largest_k, config.threshold, config.threshold_period,
                                                       config.samplings});
    if (config.error_feedback) {
      residual_ = Buffer<T>(config.count);
      kernels::host::fill_zero(residual_.data(), residual_.size());
    }
  }

  void reset() override {
    statistics = {};
    update_ = {};
    if (sparse_) sparse_->reset();
    if (selector_) selector_->reset();
    kernels::host::fill_zero(residual_.data(), residual_.size());
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return residual_.bytes() + (selector_ ? selector_->memory_bytes() : 0) + (sparse_ ? sparse_->memory_bytes() : 0) +
           (dense_ ? dense_->memory_bytes() : 0);
  }

  [[nodiscard]] SparseVector<T> update() const { return update_; }
  [[nodiscard]] std::span<const T> residual() const { return {residual_.data(), static_cast<std::size_t>(residual_.size())}; }

 private:
  using Seconds = std::chrono::duration<double>;

  task<void> execute(void* dense, const void* sparse_only, std::uint64_t fault) override {
    const Clock::time_point begin = Clock::now();
    update_ = {};
    const std::int64_t k = sparse_ ? scheduled_k(config, statistics.iteration - 1) : -1;
    if (fault == 0 && k < 0 && dense == nullptr && config.count > 0)
      fault = encode_fault(FaultKind::dense_only, comm->topology.rank());
    if (k < 0) {
      co_await execute_dense(static_cast<T*>(dense), fault);
    } else {
      co_await execute_sparse(static_cast<T*>(dense), static_cast<const T*>(dense != nullptr ? dense : sparse_only), k, fault);
    }
    statistics.seconds_total = Seconds(Clock::now() - begin).count();
  }

  [[nodiscard]] Channel channel() { return Channel(comm->engine, comm->topology, run, traffic); }

  /// True when the run goes on; false when it is skipped; throws the agreed fault.
  bool accept(std::uint64_t fault) {
    if (fault == 0) return true;
    if (fault_kind(fault) != FaultKind::non_finite || config.non_finite != NonFinite::skip) throw fault_error(fault, config);
    statistics.skipped = true;
    return false;
  }

  task<void> execute_dense(T* data, std::uint64_t fault) {
    const Clock::time_point begin = Clock::now();
    if (fault == 0 && config.non_finite != NonFinite::propagate && kernels::host::count_non_finite(data, config.count) > 0) {
      fault = encode_fault(FaultKind::non_finite, comm->topology.rank());
    }
    statistics.k = config.count;
    statistics.seconds_select = Seconds(Clock::now() - begin).count();
    channel().step("0. agree that the gradients are sound");
    words_[0] = fault;
    co_await allreduce_control(channel(), words_, 1, 1, words_ + 1);
    if (accept(words_[0])) {
      co_await dense_->run(channel(), data);
      statistics.selected_local = statistics.selected_global = config.count;
    } else {
      kernels::host::fill_zero(data, config.count);
    }
    statistics.seconds_exchange = Seconds(Clock::now() - begin).count() - statistics.seconds_select;
  }

  task<void> execute_sparse(T* dense, const T* gradient, std::int64_t k, std::uint64_t fault) {
    // Ok-Topk Algorithm 2: 1. compensate and select in one pass
    const Clock::time_point begin = Clock::now();
    T* const residual = config.error_feedback ? residual_.data() : nullptr;
    const bool selected = fault == 0;
    if (selected && !selector_->select(gradient, residual, k, config.non_finite != NonFinite::propagate)) {
      fault = encode_fault(FaultKind::non_finite, comm->topology.rank());
    }
    const SparseVector<T> local = fault == 0 ? selector_->selection() : SparseVector<T>{};
    statistics.k = k;
    statistics.selected_local = local.count;
    const Clock::time_point selected_at = Clock::now();
    statistics.seconds_select = Seconds(selected_at - begin).count();

    // 2. exchange
    const SparseOutcome<T> outcome = co_await sparse_->run(channel(), local, k, fault);
    const Clock::time_point exchanged_at = Clock::now();
    statistics.seconds_exchange = Seconds(exchanged_at - selected_at).count();
    if (outcome.fault != 0) {
      if (selected && residual != nullptr) selector_->take_back(gradient, residual);
      statistics.selected_local = 0;
    }
    if (accept(outcome.fault)) {
      // 3. what was delivered leaves the residual
      if (residual != nullptr) selector_->settle(residual, outcome.update);
      update_ = outcome.update;
    }
    statistics.selected_global = update_.count;
    statistics.rethresholded = outcome.rethresholded || selector_->rethresholded();
    statistics.recut = outcome.recut;
    statistics.balanced = outcome.balanced;
    log(comm->settings.log, LogLevel::debug, "rank {}: plan '{}', iteration {}: {} local, {} global entries{}{}{}{}",
        comm->topology.rank(), config.name, statistics.iteration, statistics.selected_local, statistics.selected_global,
        outcome.recut ? ", re-cut" : "", outcome.balanced ? ", balanced" : "", statistics.rethresholded ? ", re-thresholded" : "",
        statistics.skipped ? ", skipped" : "");

    // 4. the dense result
    if (dense != nullptr) {
      kernels::host::fill_zero(dense, config.count);
      kernels::host::scatter(dense, update_.indices, update_.values, update_.count);
    }
    statistics.seconds_apply = Seconds(Clock::now() - exchanged_at).count();
  }

  Buffer<T> residual_;
  std::unique_ptr<DenseAllreduce<T>> dense_;
  std::unique_ptr<SparseAllreduce<T>> sparse_;
  std::optional<LocalSelector<T>> selector_;
  SparseVector<T> update_;
  std::uint64_t words_[2] = {};
};

}  // namespace weir::detail
