// Plans for CUDA memory: gradient, residual and update stay on the GPU; messages alone leave it.
#include "plan/device_plan.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "codec/device.hpp"
#include "collectives/sparse_cuda.hpp"
#include "plan/device_selector.hpp"
#include "plan/fault.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {
namespace {

namespace device = kernels::cuda;

/// The gradient is of G, its sums and the residual of T.
template <class G, class T>
class DevicePlan final : public PlanState {
 public:
  DevicePlan(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, int tag)
      : PlanState(std::move(communicator), configuration, tag),
        problem_(problem_on(stream_.get(), device_, *comm, config)),
        selector_({config.count, problem_.largest_k, problem_.config.threshold, config.threshold_period, config.samplings},
                  stream_.get()),
        sparse_(make_sparse_cuda<T>(find_allreduce(config.algorithm), problem_)),
        rounded_(config.wire_values == WireValues::native ? 0 : problem_.largest_local),
        residual_(config.error_feedback ? config.count : 0) {
    forget_residual();
    if (find_allreduce(config.algorithm).sharded && comm->topology.largest_node() > 1) {
      log(comm->settings.log, LogLevel::info, "rank {}: plan '{}': {} runs flat: there are no in-node steps for CUDA memory",
          comm->topology.rank(), config.name, config.algorithm);
    }
  }

  ~DevicePlan() override {
    try {
      cuda::synchronize(stream_.get());
    } catch (const Error&) {  // the GPU has failed: nothing runs any more
    }
  }

  void reset() override {
    statistics = {};
    update_ = {};
    sparse_->reset();
    selector_.reset();
    forget_residual();
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return selector_.memory_bytes() + sparse_->memory_bytes() + rounded_.bytes() + residual_.bytes();
  }
  [[nodiscard]] std::int64_t residual_begin() const override { return 0; }
  [[nodiscard]] AnyVector update() const override { return {update_.indices, update_.values, update_.count}; }
  [[nodiscard]] AnyVector residual() const override { return {nullptr, residual_.data(), residual_.size()}; }

 private:
  using Seconds = std::chrono::duration<double>;

  static AllreduceProblem problem_on(void* stream, int device, const CommunicatorState& comm, const AllreduceConfig& config) {
    AllreduceProblem problem = problem_of(comm, config);
    problem.stream = stream;
    problem.device = device;
    problem.direct = comm.device_path.direct;
    return problem;
  }
  [[nodiscard]] T* residual_data() { return config.error_feedback ? residual_.data() : nullptr; }

  void forget_residual() {
    device::fill_zero(selector_.queue(), residual_.data(), residual_.size());
    cuda::synchronize(stream_.get());
  }

  [[nodiscard]] FaultKind memory_fault(const void* gradient, void* stream) override {
    const cuda::Place place = cuda::place_of(gradient);
    if (place.kind == cuda::Place::Kind::host || place.kind == cuda::Place::Kind::pinned) return FaultKind::host_memory;
    if (place.device != device_) return FaultKind::other_device;
    if (!cuda::is_stream(stream)) return FaultKind::bad_stream;
    try {  // a stream of another GPU cannot record an event of this one
      const cuda::OnDevice on(device_);
      entered_.record(stream);
    } catch (const Error&) {
      return FaultKind::bad_stream;
    }
    return FaultKind::none;
  }

  /// However the run ends, what comes later on the caller's stream comes after it: it may still read the gradient.
  class Leaving {
   public:
    explicit Leaving(DevicePlan& plan) : plan_(plan) {}
    Leaving(const Leaving&) = delete;
    Leaving& operator=(const Leaving&) = delete;
    ~Leaving() {
      try {
        const cuda::OnDevice on(plan_.device_);
        plan_.left_.record(plan_.stream_.get());
        plan_.left_.hold(plan_.caller_stream());
      } catch (const Error&) {  // the GPU has failed: whoever uses it next is told
      }
    }

   private:
    DevicePlan& plan_;
  };

  task<void> execute(void* dense, const void* sparse_only, std::uint64_t fault) override {
    const Clock::time_point begin = Clock::now();
    const auto* const gradient = static_cast<const G*>(dense != nullptr ? dense : sparse_only);
    const std::int64_t k = scheduled_k(config, statistics.iteration - 1);
    statistics.k = k;
    update_ = {};

    // 1. compensate and select, after what is on the caller's stream
    const bool selected = fault == 0;
    std::optional<Leaving> leaving;
    SparseVector<T> local;
    if (selected) {
      entered_.hold(stream_.get());  // recorded by memory_fault()
      leaving.emplace(*this);
      if (co_await selector_.select(channel(), gradient, residual_data(), k, config.non_finite != NonFinite::propagate))
        local = selector_.selection();
      else
        fault = encode_fault(FaultKind::non_finite, comm->topology.rank());
    }
    statistics.selected_local = local.count;
    const Clock::time_point selected_at = Clock::now();
    statistics.seconds_select = Seconds(selected_at - begin).count();

    // 2. exchange
    const SparseOutcome<T> outcome = co_await sparse_->run(channel(), rounded(local), k, fault);
    const Clock::time_point exchanged_at = Clock::now();
    statistics.seconds_exchange = Seconds(exchanged_at - selected_at).count();
    if (outcome.fault != 0) {
      if (selected && config.error_feedback) selector_.take_back(gradient, residual_.data());
      statistics.selected_local = 0;
    }
    const bool accepted = is_accepted(outcome.fault);
    if (accepted) {
      update_ = outcome.update;
      // 3. what was delivered leaves the residual
      if (config.error_feedback) settle(local, outcome);
    }
    statistics.selected_global = update_.count;
    statistics.rethresholded = outcome.rethresholded || selector_.rethresholded();
    statistics.recut = outcome.recut;
    statistics.balanced = outcome.balanced;

    // 4. the dense result
    if (dense != nullptr) {
      device::fill_zero(selector_.queue(), static_cast<G*>(dense), config.count);
      device::scatter<G, T>(selector_.queue(), static_cast<G*>(dense), update_.indices, update_.values, {update_.count});
    }
    const Clock::time_point end = Clock::now();
    statistics.seconds_apply = Seconds(end - exchanged_at).count();
    statistics.seconds_total = Seconds(end - begin).count();
  }

  /// What of `local` travels.
  SparseVector<T> rounded(SparseVector<T> local) {
    if constexpr (sizeof(T) == 4) {
      if (config.wire_values == WireValues::native) return local;
      wire::cuda::round_values(selector_.queue(), config.wire_values, local.values, rounded_.data(), local.count);
      return {local.indices, rounded_.data(), local.count};
    }
    return local;
  }

  void settle(SparseVector<T> local, const SparseOutcome<T>& outcome) {
    selector_.settle(residual_.data(), update_.indices, update_.count);
    const SparseVector<T> returned = outcome.returned;
    const std::int64_t whole[] = {returned.count};
    std::int64_t first = 0;
    for (const std::int64_t end : outcome.returned_runs.empty() ? std::span<const std::int64_t>(whole) : outcome.returned_runs) {
      device::scatter_add(selector_.queue(), residual_.data(), returned.indices + first, returned.values + first, end - first);
      first = end;
    }
    if constexpr (sizeof(T) == 4) {
      if (config.wire_values != WireValues::native)
        wire::cuda::return_rounded(selector_.queue(), config.wire_values, residual_.data(), local.indices, local.values,
                                   local.count, update_.indices, update_.count);
    }
  }

  int device_ = cuda::current_device();
  cuda::Stream stream_;
  AllreduceProblem problem_;
  DeviceSelector<G, T> selector_;
  std::unique_ptr<SparseAllreduce<T>> sparse_;
  cuda::DeviceArray<T> rounded_;  // values of the selection, as they travel
  SparseVector<T> update_;        // of the algorithm
  cuda::DeviceArray<T> residual_;
  cuda::Event entered_, left_;  // the caller's stream
};

}  // namespace

std::shared_ptr<PlanState> make_device_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config, int tag) {
  if (!cuda::why_unusable().empty()) fail(WEIR_ERR_UNSUPPORTED, "a plan for CUDA memory cannot run here: {}", cuda::why_unusable());
  switch (config.type) {
    case DataType::float64:
      return std::make_shared<DevicePlan<double, double>>(std::move(comm), config, tag);
    case DataType::float16:
      return std::make_shared<DevicePlan<float16, float>>(std::move(comm), config, tag);
    case DataType::bfloat16:
      return std::make_shared<DevicePlan<bfloat16, float>>(std::move(comm), config, tag);
    default:
      return std::make_shared<DevicePlan<float, float>>(std::move(comm), config, tag);
  }
}

}  // namespace weir::detail
