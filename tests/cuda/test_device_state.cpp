// test_device_state.cpp: plans and tables in CUDA memory continue from saved states, also from host memory. Tests trials of
// candidates there.
#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "cuda/nccl.hpp"
#include "cuda/runtime.hpp"
#include "kernels/narrow.hpp"
#include "model/machine.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/catch.hpp"
#include "support/device_arrays.hpp"
#include "support/plan_states.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

/// Gradients of G, results and residuals of T.
template <class G, class T>
struct GpuPlace {
  using Value = T;
  explicit GpuPlace(int /*rank*/) {}
  static std::vector<T> run(AllreducePlan& plan, const std::vector<T>& gradient) {
    const cuda::Stream stream;
    std::vector<G> narrow;
    for (const T x : gradient) narrow.push_back(to_gradient(x));
    Upload<G> there(narrow, stream.get());
    plan.run(there.data(), stream.get());
    if constexpr (std::is_same_v<G, T>) return there.fetch();
    const SparseView<T> view = plan.sparse_result<T>();
    const auto indices = fetch(view.indices.data(), view.indices.size(), stream.get());
    const auto values = fetch(view.values.data(), view.values.size(), stream.get());
    std::vector<T> update(gradient.size());
    for (std::size_t i = 0; i < indices.size(); ++i) update[indices[i]] = values[i];
    return update;
  }
  static std::vector<T> residual(const AllreducePlan& plan) {
    const cuda::Stream stream;
    return fetch(plan.residual<T>().data(), plan.residual<T>().size(), stream.get());
  }
  static T rounded(T x) { return from_gradient(to_gradient(x)); }

 private:
  static G to_gradient(T x) {
    if constexpr (std::is_same_v<G, T>)
      return x;
    else
      return narrow_to<G>(x);
  }
  static T from_gradient(G x) {
    if constexpr (std::is_same_v<G, T>)
      return x;
    else
      return widen(x);
  }
};

/// A GPU for each rank.
struct OwnGpu : GpuPlace<float, float> {
  explicit OwnGpu(int rank) : GpuPlace(rank), on_(rank) {}

 private:
  cuda::OnDevice on_;
};

AllreduceConfig gpu_config(std::string_view algorithm) {
  return {.count = 701,
          .memory = MemorySpace::cuda,
          .k = 30,
          .algorithm = std::string(algorithm),
          .algorithm_parameters = parameters_for(algorithm, "boundary_period=2"),
          .non_finite = NonFinite::skip,
          .warmup_iterations = 3};
}

}  // namespace

TEST_CASE("every algorithm, threshold and wire value in CUDA memory goes on from a saved state", "[device_state]") {
  int number = 0;
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (!algorithm.sparse) continue;
    for (const StateMachine& machine : {StateMachine{1, ""}, StateMachine{3, "node:3 rank:1"}}) {
      AllreduceConfig config = gpu_config(algorithm.name);
      for (const std::string& threshold : all_thresholds) {
        for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
          if (left_out() || (machine.ranks == 1 && values != WireValues::native)) continue;
          set_threshold(config, threshold);
          config.wire_values = values;
          REQUIRE(plan_going_on<GpuPlace<float, float>>(machine, config, 1 + number++ % 5) == "");
        }
      }
      config.wire_values = WireValues::native;
      config.type = DataType::float64;
      if (!left_out()) REQUIRE(plan_going_on<GpuPlace<double, double>>(machine, config, 3) == "");
      config.type = DataType::float16;
      if (!left_out()) REQUIRE(plan_going_on<GpuPlace<float16, float>>(machine, config, 3) == "");
      config.type = DataType::bfloat16;
      if (!left_out()) REQUIRE(plan_going_on<GpuPlace<bfloat16, float>>(machine, config, 4) == "");
    }
  }
}

TEST_CASE("every compressor and memory in CUDA memory goes on from a saved state", "[device_state]") {
  const StateMachine machine{3, "node:3 rank:1"};
  for (const compress::CompressorRow* row : compress::compressor_registry()) {
    AllreduceConfig config = gpu_config(row->carriage == compress::Carriage::sparse   ? "oktopk"
                                        : row->carriage == compress::Carriage::packed ? "packed_reduce_scatter"
                                                                                      : "dense_ring");
    config.compressor = row->name;
    const auto go_on = [&](int saved_after) {
      if (!left_out()) REQUIRE(plan_going_on<GpuPlace<float, float>>(machine, config, saved_after) == "");
    };
    go_on(3);
    if (!row->feedback) continue;
    config.feedback_gain = 0.5;
    config.feedback_decay = 0.75;
    go_on(2);
    if (row->momentum != nullptr) continue;
    config.feedback_gain = config.feedback_decay = 1;
    config.error_feedback = Feedback::ef21;
    go_on(4);
  }
}

TEST_CASE("dense iterations and sums in uneven nodes by NCCL go on from a saved state", "[device_state]") {
  const StateMachine machine{5, "nodes:2,3"};
  if (!cuda::why_no_nccl().empty() || cuda::device_count() < machine.ranks) {
    WARN("not tested: it needs NCCL and 5 GPUs");
    return;
  }
  for (const std::string algorithm : {"oktopk", "hitopk", "hi_oktopk"}) {
    for (const std::string threshold : {"exact", "reuse", "sidco"}) {
      AllreduceConfig config = gpu_config(algorithm);
      set_threshold(config, threshold);
      config.dense_iterations = 2;
      for (const int saved_after : {1, 4}) {
        if (!left_out(4)) REQUIRE(plan_going_on<OwnGpu>(machine, config, saved_after) == "");
      }
    }
  }
}

TEST_CASE("a state of host memory goes on in CUDA memory, and back", "[device_state]") {
  RankCheck check;
  run_ranks(3,
            [&](Communicator& comm) {
              for (const std::string& threshold : all_thresholds) {
                AllreduceConfig config = gpu_config("oktopk");
                set_threshold(config, threshold);
                config.algorithm_parameters = "boundary_period=2,schedule=direct";  // for both, because traffic is compared
                AllreducePlan on_gpu(comm, config);
                config.memory = MemorySpace::host;
                AllreducePlan on_host(comm, config), whole(comm, config);
                using Host = HostPlace<float>;
                using Gpu = GpuPlace<float, float>;
                for (int t = 0; t < 9; ++t) {
                  const Run<float> right = run_once<Host>(whole, comm, t);
                  if (t == 3) restore_state(*on_gpu.state(), save_state(*on_host.state()), "plan 'on the GPU'");
                  if (t == 6) restore_state(*on_host.state(), save_state(*on_gpu.state()), "plan 'in host memory'");
                  const Run<float> run = t / 3 == 1 ? run_once<Gpu>(on_gpu, comm, t) : run_once<Host>(on_host, comm, t);
                  check.that(run == right, threshold + ", run " + std::to_string(t));
                }
              }
            },
            {.machine = "node:3 rank:1"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("candidates take turns in CUDA memory: nothing is lost, and trials go on from a saved state", "[device_state]") {
  const MachineFile file(format_machine(slow_cores()));
  const auto go_on = [&]<class Place>(DataType type, std::int64_t trials, int step) {
    if (left_out(2)) return;
    const AllreduceConfig config{.count = 10001,
                                 .type = type,
                                 .memory = MemorySpace::cuda,
                                 .density = 0.2,
                                 .algorithm = "auto_sparse",
                                 .trial_iterations = trials,
                                 .average = false,
                                 .non_finite = NonFinite::skip};
    const std::string failure = trials_going_on<Place>({config, 3, "node:3 rank:1"}, file, step);
    INFO("type " << static_cast<int>(type) << ", " << trials << " trials");
    CHECK(failure == "");
  };
  go_on.operator()<GpuPlace<float, float>>(DataType::float32, 1, 3);
  go_on.operator()<GpuPlace<float, float>>(DataType::float32, 2, 3);
  go_on.operator()<GpuPlace<float16, float>>(DataType::float16, 2, 7);
  go_on.operator()<GpuPlace<bfloat16, float>>(DataType::bfloat16, 1, 7);
}

}  // namespace weir::test
