// Measures selection in CUDA memory in a plan of one rank, whose exchange does nothing.
#include <algorithm>
#include <chrono>

#include "base/buffer.hpp"
#include "cli/bench_select.hpp"
#include "cli/gradient_buffer.hpp"
#include "communicator/communicator.hpp"
#include "cuda/runtime.hpp"
#include "kernels/kernels.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace weir::cli {
namespace {

AllreduceConfig config_of(const SelectOptions& options, const SelectMethod& method) {
  AllreduceConfig config;
  config.count = options.count;
  config.memory = MemorySpace::cuda;
  config.k = target(options);
  config.algorithm = "topk_allgather";
  config.threshold = method.threshold;
  config.threshold_parameters = method.parameters;
  return config;
}

/// Returns the milliseconds of copies that read and write 12 bytes per element.
double copy_ms(const cuda::DeviceArray<float>& to, const cuda::DeviceArray<float>& from, void* stream) {
  const auto begin = std::chrono::steady_clock::now();
  cuda::copy(to.data(), from.data(), from.bytes(), stream);
  cuda::copy(to.data(), from.data(), from.bytes() / 2, stream);
  cuda::synchronize(stream);
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Row measure_on_gpu(const SelectOptions& options, const Gradients& gradients, const SelectMethod& method) {
  InprocJob job(1, 0);
  const Communicator comm(detail::make_communicator(job.transport(0)));
  const cuda::OnDevice on(gpu_to_use(comm));
  AllreducePlan plan(comm, config_of(options, method));
  const cuda::Stream stream;
  const std::int64_t n = options.count;
  const cuda::DeviceArray<float> gradient(n), other(n);
  Buffer<float> sums(n), values(n);
  Buffer<std::uint32_t> indices(n);
  SelectMeasurement measurement(options, method, "copy");
  for (int t = 0; t < options.iterations + select_warmup; ++t) {
    if (method.cold) plan.reset();
    const std::vector<float>& g = gradients[static_cast<std::size_t>(t) % gradients.size()];
    cuda::copy(sums.data(), plan.residual<float>().data(), n * 4, stream.get());
    cuda::copy(gradient.data(), g.data(), n * 4, stream.get());
    cuda::synchronize(stream.get());
    kernels::host::add(g.data(), sums.data(), n);
    const std::int64_t allocations_before = allocations_so_far();
    plan.run_sparse(gradient.data(), stream.get());
    const std::int64_t made = allocations_so_far() - allocations_before;
    const SparseView<float> update = plan.sparse_result<float>();
    const auto count = static_cast<std::int64_t>(update.values.size());
    cuda::copy(indices.data(), update.indices.data(), count * 4, stream.get());
    cuda::copy(values.data(), update.values.data(), count * 4, stream.get());
    cuda::synchronize(stream.get());
    const double base_ms = copy_ms(other, gradient, stream.get());
    if (t >= select_warmup) {
      measurement.add(plan.statistics().seconds_select * 1e3, base_ms, made, {indices.data(), values.data(), count}, sums.data());
    }
  }
  return measurement.row();
}

}  // namespace weir::cli
