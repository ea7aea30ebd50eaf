// Plans for CUDA memory: selection and everything of the gradient's size on the GPU; what is as large as k goes through pinned
// memory to the same exchange that host plans use.
#include "plan/device_plan.hpp"

#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "plan/device_selector.hpp"
#include "plan/fault.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {
namespace {

namespace device = kernels::cuda;

template <class T>
struct PinnedEntries {
  cuda::PinnedArray<std::uint32_t> indices;
  cuda::PinnedArray<T> values;
  explicit PinnedEntries(std::int64_t capacity) : indices(capacity), values(capacity) {}
  [[nodiscard]] std::int64_t capacity() const { return indices.size(); }
  [[nodiscard]] std::int64_t bytes() const { return indices.bytes() + values.bytes(); }
  [[nodiscard]] SparseVector<T> first(std::int64_t count) const { return {indices.data(), values.data(), count}; }
};

/// The gradient is of G, its sums and the residual of T.
template <class G, class T>
class DevicePlan final : public PlanState {
 public:
  DevicePlan(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, int tag)
      : PlanState(std::move(communicator), configuration, tag),
        problem_(problem_of(*comm, config)),
        selector_({config.count, problem_.largest_k, problem_.config.threshold, config.threshold_period, config.samplings},
                  stream_.get()),
        sparse_(find_allreduce(config.algorithm).template make_sparse<T>(problem_)),
        local_(problem_.largest_local),
        rounded_(config.wire_values == WireValues::native ? 0 : problem_.largest_local),
        staging_(largest_update()),
        update_indices_(largest_update()),
        update_values_(largest_update()),
        residual_(config.error_feedback ? config.count : 0) {
    forget_residual();
    staged_.record(stream_.get());
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
    update_count_ = 0;
    sparse_->reset();
    selector_.reset();
    forget_residual();
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return selector_.memory_bytes() + sparse_->memory_bytes() + local_.bytes() + rounded_.bytes() + staging_.bytes() +
           update_indices_.bytes() + update_values_.bytes() + residual_.bytes();
  }
  [[nodiscard]] std::int64_t residual_begin() const override { return 0; }
  [[nodiscard]] AnyVector update() const override { return {update_indices_.data(), update_values_.data(), update_count_}; }
  [[nodiscard]] AnyVector residual() const override { return {nullptr, residual_.data(), residual_.size()}; }

 private:
  using Seconds = std::chrono::duration<double>;

  [[nodiscard]] std::int64_t largest_update() const { return find_allreduce(config.algorithm).largest_update(problem_); }
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
    update_count_ = 0;

    // 1. compensate and select, after what is on the caller's stream
    const bool selected = fault == 0;
    std::optional<Leaving> leaving;
    SparseVector<T> local;
    if (selected) {
      entered_.hold(stream_.get());  // recorded by memory_fault()
      leaving.emplace(*this);
      if (co_await selector_.select(channel(), gradient, residual_data(), k, config.non_finite != NonFinite::propagate))
        local = co_await fetch_selection();
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
      co_await deliver(outcome.update);
      // 3. what was delivered leaves the residual
      if (config.error_feedback) co_await settle(local, outcome);
    }
    statistics.selected_global = update_count_;
    statistics.rethresholded = outcome.rethresholded || selector_.rethresholded();
    statistics.recut = outcome.recut;
    statistics.balanced = outcome.balanced;

    // 4. the dense result
    if (dense != nullptr) {
      device::fill_zero(selector_.queue(), static_cast<G*>(dense), config.count);
      device::scatter<G, T>(selector_.queue(), static_cast<G*>(dense), update_indices_.data(), update_values_.data(),
                            {update_count_, nullptr});
    }
    const Clock::time_point end = Clock::now();
    statistics.seconds_apply = Seconds(end - exchanged_at).count();
    statistics.seconds_total = Seconds(end - begin).count();
  }

  task<SparseVector<T>> fetch_selection() {
    const SparseVector<T> there = selector_.selection();
    cuda::copy(local_.indices.data(), there.indices, there.count * std::int64_t{4}, stream_.get());
    cuda::copy(local_.values.data(), there.values, there.count * static_cast<std::int64_t>(sizeof(T)), stream_.get());
    staged_.record(stream_.get());
    co_await channel().happened(staged_);
    co_return local_.first(there.count);
  }

  /// What of `local` travels.
  SparseVector<T> rounded(SparseVector<T> local) {
    if (config.wire_values == WireValues::native) return local;
    wire::round_values(config.wire_values, local.values, rounded_.data(), local.count);
    return {local.indices, rounded_.data(), local.count};
  }

  task<void> deliver(SparseVector<T> update) {
    co_await stage(update);
    cuda::copy(update_indices_.data(), staging_.indices.data(), update.count * std::int64_t{4}, stream_.get());
    cuda::copy(update_values_.data(), staging_.values.data(), update.count * static_cast<std::int64_t>(sizeof(T)), stream_.get());
    staged_.record(stream_.get());
    update_count_ = update.count;
  }

  /// `entries` into staging_, once the stream no longer reads what was there.
  task<void> stage(SparseVector<T> entries) {
    co_await channel().happened(staged_);
    std::memcpy(staging_.indices.data(), entries.indices, static_cast<std::size_t>(entries.count) * 4);
    std::memcpy(staging_.values.data(), entries.values, static_cast<std::size_t>(entries.count) * sizeof(T));
  }

  task<void> settle(SparseVector<T> local, SparseOutcome<T> outcome) {
    selector_.settle(residual_.data(), update_indices_.data(), update_count_);
    corrections_.clear();
    for (std::int64_t i = 0; i < outcome.returned.count; ++i)
      corrections_.push_back({outcome.returned.indices[i], outcome.returned.values[i]});
    co_await give_back();
    if (config.wire_values == WireValues::native) co_return;
    const SparseVector<T> taken = outcome.update;
    for (std::int64_t i = 0, t = 0; i < local.count && t < taken.count;) {
      const std::uint32_t index = local.indices[i], taken_index = taken.indices[t];
      if (index == taken_index && std::isfinite(rounded_.data()[i]))
        corrections_.push_back({index, local.values[i] - rounded_.data()[i]});
      i += index <= taken_index;
      t += taken_index <= index;
    }
    co_await give_back();
  }

  /// Adds corrections_ to the residual, in their order: in runs of ascending indices, since none may be there twice at a time.
  task<void> give_back() {
    for (std::size_t next = 0; next < corrections_.size();) {
      co_await channel().happened(staged_);
      std::int64_t count = 0;
      for (; next < corrections_.size() && count < staging_.capacity(); ++next, ++count) {
        if (count > 0 && staging_.indices.data()[count - 1] >= corrections_[next].index) break;
        staging_.indices.data()[count] = corrections_[next].index;
        staging_.values.data()[count] = corrections_[next].value;
      }
      device::scatter_add(selector_.queue(), residual_.data(), staging_.indices.data(), staging_.values.data(), count);
      staged_.record(stream_.get());
    }
    corrections_.clear();
  }

  struct Entry {
    std::uint32_t index;
    T value;
  };

  int device_ = cuda::current_device();
  cuda::Stream stream_;
  AllreduceProblem problem_;
  DeviceSelector<G, T> selector_;
  std::unique_ptr<SparseAllreduce<T>> sparse_;
  PinnedEntries<T> local_;
  cuda::PinnedArray<T> rounded_;  // of the selection, as it travels
  PinnedEntries<T> staging_;      // on the way to the device
  cuda::DeviceArray<std::uint32_t> update_indices_;
  cuda::DeviceArray<T> update_values_;
  std::int64_t update_count_ = 0;
  cuda::DeviceArray<T> residual_;
  std::vector<Entry> corrections_;  // of the residual, as large as they have ever been
  cuda::Event entered_, left_;      // the caller's stream
  cuda::Event staged_;              // staging_ and local_ are free, or there
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
