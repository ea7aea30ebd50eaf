#include "plan/device_dense_plan.hpp"

#include <bit>
#include <optional>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"
#include "communicator/input_error.hpp"
#include "cuda/runtime.hpp"
#include "kernels/device.hpp"
#include "nccl/turn.hpp"
#include "plan/device_stream.hpp"

namespace weir::detail {
namespace {

namespace device = kernels::cuda;

template <class G>
class DeviceDensePlan final : public PlanImpl {
 public:
  DeviceDensePlan(std::shared_ptr<CommunicatorState> communicator, const AllreduceConfig& configuration, Lease lease)
      : PlanImpl(std::move(communicator), configuration, std::move(lease)),
        nccl_(*comm->nccl),
        map_(comm->topology, config.count),
        scratch_(device::scratch_bytes(config.count)),
        found_(1) {
    for (int shard = 0; shard <= map_.shards(); ++shard) bounds_.push_back(map_.begin(shard));
    const int ranks = comm->topology.size();
    if (!config.average) return;
    if (sizeof(G) == 2 || std::has_single_bit(static_cast<unsigned>(ranks)))
      factor_ = 1.0 / ranks;
    else
      late_factor_ = T{1} / static_cast<T>(ranks);
  }

  ~DeviceDensePlan() override { stream_.drain(); }

  void reset() override { forget_runs(); }
  [[nodiscard]] std::int64_t memory_bytes() const override { return scratch_.bytes() + found_.bytes(); }
  [[nodiscard]] AnyVector update() const override { return {}; }
  [[nodiscard]] AnyVector residual() const override { return {}; }
  [[nodiscard]] std::int64_t residual_begin() const override { return 0; }

 private:
  using T = std::conditional_t<std::is_same_v<G, double>, double, float>;
  using Seconds = std::chrono::duration<double>;

  [[nodiscard]] InputError memory_error(const void* gradient, void* stream) override {
    return stream_.input_error(gradient, stream);
  }
  [[nodiscard]] device::Queue queue() const { return {stream_.get(), scratch_.data(), stream_.device()}; }

  task<void> execute(void* dense, const void* sparse_only, std::uint64_t input_error) override {
    const Clock::time_point begin = Clock::now();
    const int me = comm->topology.rank();
    auto* const data = static_cast<G*>(dense);
    if (input_error == 0 && sparse_only != nullptr) input_error = input_error_word(InputError::dense_only, me);
    if (input_error == 0 && nccl_.aborted()) input_error = input_error_word(InputError::nccl_aborted, me);
    std::optional<PlanStream::Work> work;
    if (input_error == 0) {
      work.emplace(stream_);
      if (config.non_finite != NonFinite::propagate && co_await holds_non_finite(data))
        input_error = input_error_word(InputError::non_finite, me);
    }
    statistics.k = config.count;
    statistics.seconds_select = Seconds(Clock::now() - begin).count();

    channel().step("0. agree that the gradients are sound");
    words_[0] = input_error;
    co_await allreduce_control(channel(), words_, 1, 1, words_ + 1);
    if (is_accepted(words_[0])) {
      co_await sum(data);
      statistics.selected_local = statistics.selected_global = config.count;
    } else {
      device::fill_zero(queue(), data, config.count);
    }
    statistics.seconds_total = Seconds(Clock::now() - begin).count();
    statistics.seconds_exchange = statistics.seconds_total - statistics.seconds_select;
  }

  task<bool> holds_non_finite(const G* data) {
    if (config.count == 0) co_return false;
    channel().step("0. look for NaN and infinity on the GPU");
    device::exceedances<G, T>(queue(), data, nullptr, device::Extent{config.count, nullptr}, key_infinity<T>, found_.data());
    done_.record(stream_.get());
    co_await channel().done(done_);
    co_return found_.data()->count > 0;
  }

  task<void> sum(G* data) {
    NcclTurn turn(nccl_, done_, stream_.get());
    co_await turn.begin(channel());
    if (config.algorithm == "dense_torus2d")
      co_await sum_along_machine(turn, data);
    else
      co_await sum_flat(turn, data);
    co_await turn.end(channel());
  }

  task<void> sum_flat(NcclTurn& turn, G* data) {
    channel().step("1. allreduce of NCCL");
    if (auto* const link = nccl_.of(NcclGroup::all); link != nullptr) {
      link->allreduce(data, config.count, config.type, factor_, stream_.get());
      co_await turn.issued(channel(), link);
    }
    divide(data, config.count);
  }

  /// The 2D torus of CommLib section 5.3.
  task<void> sum_along_machine(NcclTurn& turn, G* data) {
    auto* const node = nccl_.of(NcclGroup::node);
    auto* const rail = nccl_.of(NcclGroup::rail);
    const bool owner = map_.mine() >= 0;
    G* const shard = owner ? data + map_.begin(map_.mine()) : nullptr;
    const std::int64_t size = owner ? map_.size(map_.mine()) : 0;
    const bool factor_in_nodes = comm->topology.smallest_node() > 1;  // all contributions go through a sum there
    channel().step("1. reduce-scatter of NCCL in the node");
    if (node != nullptr) {
      node->reduce_scatter(data, shard, bounds_, config.type, factor_in_nodes ? factor_ : 1, stream_.get());
      co_await turn.issued(channel(), node);
    }
    channel().step("2. allreduce of NCCL across nodes");
    if (rail != nullptr) {
      rail->allreduce(shard, size, config.type, factor_in_nodes ? 1 : factor_, stream_.get());
      co_await turn.issued(channel(), rail);
    }
    divide(shard, size);
    channel().step("3. allgather of NCCL in the node");
    if (node != nullptr) {
      node->allgather(data, bounds_, config.type, stream_.get());
      co_await turn.issued(channel(), node);
    }
  }

  void divide(G* sums, std::int64_t count) {
    if constexpr (std::is_same_v<G, T>) {
      if (late_factor_ != 1 && count > 0) device::scale(queue(), sums, count, late_factor_);
    }
  }

  PlanStream stream_;
  NcclGroups& nccl_;
  ShardMap map_;
  std::vector<std::int64_t> bounds_;  // of the shards
  double factor_ = 1;                 // of every contribution
  T late_factor_ = 1;                 // of the sum
  cuda::DeviceArray<std::byte> scratch_;
  cuda::PinnedArray<Exceedances<T>> found_;
  cuda::Event done_;
  std::uint64_t words_[2] = {};
};

std::vector<NcclGroup> groups_of(const AllreduceConfig& config) {
  if (config.algorithm == "dense_torus2d") return {NcclGroup::node, NcclGroup::rail};
  return {NcclGroup::all};
}

}  // namespace

DeviceNeeds connect_device_dense(CommunicatorState& comm, const AllreduceConfig& config, int tag) {
  const std::vector<NcclGroup> groups = groups_of(config);
  if (const std::string obstacle = connect_nccl(comm, tag, groups); !obstacle.empty())
    fail_alike(WEIR_ERR_UNSUPPORTED, "plan '{}': {} in CUDA memory needs NCCL on all ranks; {}", config.name, config.algorithm,
               obstacle);
  return {comm.nccl.get(), fmt::format("by NCCL {}\n", cuda::nccl_version_text(cuda::nccl_version()))};
}

std::shared_ptr<PlanImpl> make_device_dense_plan(std::shared_ptr<CommunicatorState> comm, const AllreduceConfig& config,
                                                 Lease lease) {
  switch (config.type) {
    case DataType::float64:
      return std::make_shared<DeviceDensePlan<double>>(std::move(comm), config, std::move(lease));
    case DataType::float16:
      return std::make_shared<DeviceDensePlan<float16>>(std::move(comm), config, std::move(lease));
    case DataType::bfloat16:
      return std::make_shared<DeviceDensePlan<bfloat16>>(std::move(comm), config, std::move(lease));
    default:
      return std::make_shared<DeviceDensePlan<float>>(std::move(comm), config, std::move(lease));
  }
}

}  // namespace weir::detail
