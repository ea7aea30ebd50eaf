// test_graph_capture.cpp: kernels can be captured into a CUDA graph, which then does the same as the calls. Runs only on a GPU.
#include <cuda_runtime.h>

#include <functional>
#include <vector>

#include "cuda/wire.hpp"
#include "support/catch.hpp"
#include "support/cuda_kernel_set.hpp"
#include "support/device_arrays.hpp"
#include "support/kernel_data.hpp"

namespace weir::test {
namespace {

namespace device = kernels::cuda;

/// Runs a selection, and every kernel that an exchange runs on it.
class Sequence {
 public:
  explicit Sequence(void* stream)
      : gradient_(numbers<float>(Kind::heavy_tailed, count, 1), stream),
        original_(numbers<float>(Kind::heavy_tailed, count, 2), stream),
        queue_{stream, scratch_.data(), cuda::current_device()} {}

  void enqueue() {
    const std::int64_t bytes = residual_.bytes();
    cuda::copy(residual_.data(), original_.data(), bytes, queue_.stream);
    const Key<float> threshold = key_of(0.05f);
    device::compensate_select(queue_, static_cast<const float*>(gradient_.data()), residual_.data(), count, threshold,
                              key_infinity<float>, found_indices_.data(), found_values_.data(), count, found_.data());
    const device::Extent hits{count, &found_.data()->hits};
    device::kth_key<float, float>(queue_, found_values_.data(), hits, k, kth_.data());
    device::select_band<float, float>(queue_, found_indices_.data(), found_values_.data(), hits, {{}, kth_.data(), k},
                                      indices_.data(), values_.data(), residual_.data(), 0, kept_.data());
    const std::int64_t message = wire::cuda::encode(queue_, {}, indices_.data(), values_.data(), k, 0, count, message_.data());
    REQUIRE(message <= message_.bytes());
    wire::cuda::decode(queue_, {}, message_.data(), k, 0, count, read_indices_.data(), read_values_.data(), malformed_.data());
    device::merge_add(queue_, indices_.data(), values_.data(), {k}, read_indices_.data(), read_values_.data(), {k},
                      sum_indices_.data(), sum_values_.data(), sums_.data());
    device::divide(queue_, sum_values_.data(), {2 * k, sums_.data()}, 3.0f);
    device::moments<float, float>(queue_, residual_.data(), nullptr, {count}, moments_.data());
    device::settle(queue_, residual_.data(), indices_.data(), values_.data(), {k}, sum_indices_.data(), {2 * k, sums_.data()});
    device::fill_zero(queue_, dense_.data(), count);
    device::scatter<float, float>(queue_, dense_.data(), sum_indices_.data(), sum_values_.data(), {2 * k, sums_.data()});
  }

  /// The dense sum and the residual.
  std::vector<float> results() {
    auto all = fetch(dense_.data(), count, queue_.stream);
    const auto residual = fetch(residual_.data(), count, queue_.stream);
    all.insert(all.end(), residual.begin(), residual.end());
    return all;
  }

 private:
  static constexpr std::int64_t count = 300007, k = 3000;
  Upload<float> gradient_, original_;
  cuda::DeviceArray<float> residual_{count}, dense_{count}, found_values_{count}, values_{count}, read_values_{k},
      sum_values_{2 * k};
  cuda::DeviceArray<std::uint32_t> found_indices_{count}, indices_{count}, read_indices_{k}, sum_indices_{2 * k};
  cuda::DeviceArray<std::byte> message_{8 * k}, scratch_{device::scratch_bytes(2 * count) + wire::cuda::decode_scratch<float>(k)};
  cuda::DeviceArray<Found> found_{1};
  cuda::DeviceArray<KthKey<float>> kth_{1};
  cuda::DeviceArray<Moments<float>> moments_{1};
  cuda::DeviceArray<std::int64_t> kept_{1}, malformed_{1}, sums_{1};
  device::Queue queue_;
};

}  // namespace

TEST_CASE("kernels can be captured into a CUDA graph", "[kernels]") {
  const cuda::Stream stream;
  auto* const native = static_cast<cudaStream_t>(stream.get());
  Sequence sequence(stream.get());
  sequence.enqueue();
  const std::vector<float> expected = sequence.results();

  cudaGraph_t graph = nullptr;
  require_cuda(cudaStreamBeginCapture(native, cudaStreamCaptureModeGlobal));
  sequence.enqueue();
  require_cuda(cudaStreamEndCapture(native, &graph));
  cudaGraphExec_t runnable = nullptr;
  require_cuda(cudaGraphInstantiate(&runnable, graph, 0));
  for (int run = 0; run < 2; ++run) {
    require_cuda(cudaGraphLaunch(runnable, native));
    REQUIRE(same_sums(sequence.results(), expected));
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
}

}  // namespace weir::test
