// Plans for CUDA memory: gradient, residual and update stay on the GPU; messages alone leave it.
#include "plan/device_plan.hpp"

#include <array>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "codec/device.hpp"
#include "collectives/sparse_cuda.hpp"
#include "communicator/input_error.hpp"
#include "plan/device_dense_plan.hpp"
#include "plan/device_selector.hpp"
#include "plan/device_sharding.hpp"
#include "plan/device_stream.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {
namespace {

namespace device = kernels::cuda;

/// Plans made now hand GPU memory to MPI: see cuda/nccl.hpp.
bool is_direct(const CommunicatorState& comm) { return comm.device_path.direct && comm.nccl == nullptr; }

/// The gradient is of G, its sums and the residual of T.
template <class G, class T>
class DevicePlan final : public PlanImpl {
 public:
  /// `nccl`: for the in-node steps of an algorithm that shards; nullptr: it runs flat.
  DevicePlan(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, Lease lease, NcclGroups* nccl)
      : PlanImpl(std::move(communicator), configuration, std::move(lease)),
        sharding_(make_sharding(nccl)),
        problem_(sharding_ ? sharding_->problem(whole_problem()) : whole_problem()),
        selector_({problem_.count, problem_.largest_k, problem_.config.threshold, config.threshold_period, config.samplings},
                  stream_.get()),
        sparse_(sharding_ && !sharding_->owner() ? nullptr : make_sparse_cuda<T>(find_allreduce(config.algorithm), problem_)),
        rounded_(config.wire_values == WireValues::native ? 0 : problem_.largest_local),
        residual_(config.error_feedback ? problem_.count : 0) {
    forget_residual();
  }

  ~DevicePlan() override { stream_.drain(); }

  void reset() override {
    forget_runs();
    update_ = {};
    if (sparse_) sparse_->reset();
    selector_.reset();
    forget_residual();
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return selector_.memory_bytes() + (sparse_ ? sparse_->memory_bytes() : 0) + (sharding_ ? sharding_->memory_bytes() : 0) +
           rounded_.bytes() + residual_.bytes();
  }
  [[nodiscard]] std::int64_t residual_begin() const override { return sharding_ ? sharding_->begin() : 0; }
  [[nodiscard]] AnyVector update() const override { return {update_.indices, update_.values, update_.count}; }
  [[nodiscard]] AnyVector residual() const override { return {nullptr, residual_.data(), residual_.size()}; }

 private:
  using Seconds = std::chrono::duration<double>;

  [[nodiscard]] AllreduceProblem whole_problem() const {
    AllreduceProblem problem = problem_of(config);
    problem.stream = stream_.get();
    problem.device = stream_.device();
    problem.direct = is_direct(*comm);
    return problem;
  }
  [[nodiscard]] std::unique_ptr<DeviceSharding<G, T>> make_sharding(NcclGroups* nccl) const {
    if (nccl == nullptr) return nullptr;
    return std::make_unique<DeviceSharding<G, T>>(whole_problem(), find_allreduce(config.algorithm), *nccl);
  }
  [[nodiscard]] T* residual_data() { return config.error_feedback ? residual_.data() : nullptr; }

  void forget_residual() {
    device::fill_zero(selector_.queue(), residual_.data(), residual_.size());
    cuda::synchronize(stream_.get());
  }

  [[nodiscard]] InputError memory_error(const void* gradient, void* stream) override {
    return stream_.input_error(gradient, stream);
  }

  task<void> execute(void* dense, const void* sparse_only, std::uint64_t input_error) override {
    const Clock::time_point begin = Clock::now();
    const auto* gradient = static_cast<const G*>(dense != nullptr ? dense : sparse_only);
    const std::int64_t iteration = delivered_runs();
    std::int64_t k = scheduled_k(config, iteration);
    statistics.k = k;
    update_ = {};

    // 1. compensate and select, after what is on the caller's stream
    std::optional<PlanStream::Work> work;
    if (input_error == 0) work.emplace(stream_);
    if (sharding_) {  // the node's sum of my shard takes the place of the gradient
      gradient = co_await sharding_->reduce_scatter(channel(), gradient, input_error, stream_.get(), summed_);
      input_error = sharding_->input_error();
      k = sharding_->share(k, iteration);
    }
    const Clock::time_point reduced_at = Clock::now();
    statistics.seconds_in_node = Seconds(reduced_at - begin).count();
    const bool selected = input_error == 0 && sparse_ != nullptr;
    SparseVector<T> local;
    if (selected) {
      if (co_await selector_.select(channel(), gradient, residual_data(), k, config.non_finite != NonFinite::propagate))
        local = selector_.selection();
      else
        input_error = input_error_word(InputError::non_finite, comm->topology.rank());
    }
    statistics.selected_local = local.count;
    const Clock::time_point selected_at = Clock::now();
    statistics.seconds_select = Seconds(selected_at - reduced_at).count();

    // 2. exchange
    SparseOutcome<T> mine;
    mine.input_error = input_error;
    if (sparse_) mine = co_await sparse_->run(exchange_channel(), rounded(local), k, input_error);
    const Clock::time_point across_at = Clock::now();
    statistics.seconds_exchange = Seconds(across_at - selected_at).count();
    SparseOutcome<T> outcome = mine;
    if (sharding_) outcome = co_await sharding_->allgather(channel(), mine);
    const Clock::time_point exchanged_at = Clock::now();
    statistics.seconds_in_node += Seconds(exchanged_at - across_at).count();
    if (outcome.input_error != 0 || dense != nullptr) co_await channel().caller();
    if (outcome.input_error != 0) {
      if (selected && config.error_feedback && has_owner()) selector_.roll_back(gradient, residual_.data());
      statistics.selected_local = 0;
    }
    const bool accepted = is_accepted(outcome.input_error);
    if (accepted) {
      update_ = outcome.update;
      // 3. what was delivered leaves the residual
      if (selected && config.error_feedback) settle(local, mine);
    }
    statistics.selected_global = update_.count;
    statistics.rethresholded = outcome.rethresholded || selector_.rethresholded();
    statistics.recut = outcome.recut;
    statistics.balanced = outcome.balanced;

    // 4. the dense result
    if (dense != nullptr && has_owner()) {
      device::fill_zero(selector_.queue(), static_cast<G*>(dense), config.count);
      device::scatter<G, T>(selector_.queue(), static_cast<G*>(dense), update_.indices, update_.values, {update_.count});
    }
    const Clock::time_point end = Clock::now();
    statistics.seconds_apply = Seconds(end - exchanged_at).count();
    statistics.seconds_total = Seconds(end - begin).count();
  }

  [[nodiscard]] Channel exchange_channel() { return sharding_ ? channel().group(sharding_->map.rail()) : channel(); }

  /// What of `local` travels.
  SparseVector<T> rounded(SparseVector<T> local) {
    if constexpr (sizeof(T) == 4) {
      if (config.wire_values == WireValues::native) return local;
      wire::cuda::round_values(selector_.queue(), config.wire_values, local.values, rounded_.data(), local.count);
      return {local.indices, rounded_.data(), local.count};
    }
    return local;
  }

  /// `outcome` is that of the exchange that `local` went into.
  void settle(SparseVector<T> local, const SparseOutcome<T>& outcome) {
    const SparseVector<T> taken = outcome.update, undelivered = outcome.undelivered;
    selector_.settle(residual_.data(), taken.indices, taken.count);
    const std::int64_t whole[] = {undelivered.count};
    std::int64_t first = 0;
    for (const std::int64_t end :
         outcome.undelivered_runs.empty() ? std::span<const std::int64_t>(whole) : outcome.undelivered_runs) {
      device::scatter_add(selector_.queue(), residual_.data(), undelivered.indices + first, undelivered.values + first,
                          end - first);
      first = end;
    }
    if constexpr (sizeof(T) == 4) {
      if (config.wire_values != WireValues::native)
        wire::cuda::return_rounded(selector_.queue(), config.wire_values, residual_.data(), local.indices, local.values,
                                   local.count, taken.indices, taken.count);
    }
  }

  PlanStream stream_;
  std::unique_ptr<DeviceSharding<G, T>> sharding_;
  AllreduceProblem problem_;  // of the exchange: the whole one, or my shard's
  DeviceSelector<G, T> selector_;
  std::unique_ptr<SparseAllreduce<T>> sparse_;
  cuda::DeviceArray<T> rounded_;  // values of the selection, as they travel
  SparseVector<T> update_;        // of the algorithm, or of the node's
  cuda::DeviceArray<T> residual_;
  cuda::Event summed_;  // the gradients, in the node
};

/// Collective.
DeviceNeeds connect_nodes(CommunicatorState& comm, const AllreduceConfig& config, int tag) {
  if (!find_allreduce(config.algorithm).sharded || comm.topology.largest_node() == 1) return {};
  const std::array wanted = {NcclGroup::node};
  const std::string obstacle = connect_nccl(comm, tag, wanted);
  DeviceNeeds needs;
  if (obstacle.empty()) {
    needs.nccl = comm.nccl.get();
    needs.explanation = fmt::format("dense sums in nodes by NCCL {}", cuda::nccl_version_text(cuda::nccl_version()));
  } else {
    needs.explanation = fmt::format("runs flat, since in CUDA memory sums in nodes need NCCL on all ranks; {}", obstacle);
  }
  log(comm.settings.log, LogLevel::info, "rank {}: plan '{}': {}: {}", comm.topology.rank(), config.name, config.algorithm,
      needs.explanation);
  needs.explanation += '\n';
  return needs;
}

std::shared_ptr<PlanImpl> make_typed(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config, Lease lease,
                                     NcclGroups* nccl) {
  switch (config.type) {
    case DataType::float64:
      return std::make_shared<DevicePlan<double, double>>(std::move(comm), config, std::move(lease), nccl);
    case DataType::float16:
      return std::make_shared<DevicePlan<float16, float>>(std::move(comm), config, std::move(lease), nccl);
    case DataType::bfloat16:
      return std::make_shared<DevicePlan<bfloat16, float>>(std::move(comm), config, std::move(lease), nccl);
    default:
      return std::make_shared<DevicePlan<float, float>>(std::move(comm), config, std::move(lease), nccl);
  }
}

}  // namespace

DeviceNeeds connect_device(CommunicatorState& comm, const AllreduceConfig& config, int tag) {
  if (!find_allreduce(config.algorithm).sparse()) return connect_device_dense(comm, config, tag);
  DeviceNeeds needs = connect_nodes(comm, config, tag);
  if (is_direct(comm)) comm.gpu_memory_goes_to_mpi = true;
  return needs;
}

std::shared_ptr<PlanImpl> make_device_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config, Lease lease,
                                           const DeviceNeeds& needs) {
  if (!cuda::why_unusable().empty()) fail(WEIR_ERR_UNSUPPORTED, "a plan for CUDA memory cannot run here: {}", cuda::why_unusable());
  const bool sparse = find_allreduce(config.algorithm).sparse();
  std::shared_ptr<PlanImpl> plan = sparse ? make_typed(std::move(comm), config, std::move(lease), needs.nccl)
                                          : make_device_dense_plan(std::move(comm), config, std::move(lease));
  plan->explanation = needs.explanation;
  return plan;
}

}  // namespace weir::detail
