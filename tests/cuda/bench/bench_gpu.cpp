// bench_gpu: kernels for CUDA memory against the bandwidth of a copy measured in the same run, whole plans by stages, and exact
// selection on the axes of CUB's benchmark. A program of its own, without MPI, so that it can travel to a machine that has only a
// driver.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/json.hpp"
#include "bench/run.hpp"
#include "cli/command.hpp"
#include "cuda/runtime.hpp"

namespace weir::bench {
namespace {

void add_options(const cli::Command& app, Options& options) {
  app.option("--parts", options.parts, "what to measure, of kernels, plans and grid")
      .one_of({"kernels", "plans", "grid"})
      .delimiter(',');
  app.option("--largest", options.largest_log, "arrays of 2^LARGEST floats at most").between(10, 31);
  app.option("--headline", options.headline_log, "part kernels: 2^HEADLINE floats").between(10, 31);
  app.option("--plan", options.plan_log, "part plans: 2^PLAN floats a rank").between(10, 30);
  app.option("--ranks", options.ranks, "part plans: virtual ranks").between(1, 64);
  app.option("--algorithm", options.algorithms, "part plans: registry names; without, all sparse ones").delimiter(',');
  app.option("--repeats", options.repeats, "measurements, of which the median counts").between(1, 1000);
  app.option("--seconds", options.seconds, "nothing new is begun after that").positive();
  app.option("--torch", options.torch, "what bench_torch_topk.py has written on the same GPU, to compare with").existing_file();
  app.option("--json", options.json, "also write the rows to this file");
}

int run(const Options& options) {
  if (!cuda::why_unusable().empty()) {
    fmt::print("skipped: {}\n", cuda::why_unusable());
    return 77;
  }
  Run run(options);
  run.read_torch();
  const cuda::DeviceInfo info = cuda::describe(cuda::current_device());
  fmt::print("{}, compute capability {}.{}, {} MiB\n", info.name, info.major, info.minor, info.bytes >> 20);
  run.measure_copy();
  using Part = std::pair<const char*, void (*)(Run&)>;
  for (const auto& [name, measure] : {Part{"kernels", measure_kernels}, Part{"plans", measure_plans}, Part{"grid", measure_grid}}) {
    if (std::find(options.parts.begin(), options.parts.end(), name) == options.parts.end()) continue;
    measure(run);
    // After each part: what has been measured is not lost should the GPU fail later.
    if (!options.json.empty()) write_json(run.report.rows(), options.json);
  }
  fmt::print("\n{}\n", run.report.verdict());
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  const weir::cli::CommandLine app(
      "Kernels for CUDA memory against the bandwidth of a copy, plans by stages, exact selection of many sizes.");
  weir::bench::Options options;
  weir::bench::add_options(app, options);
  int status = 0;
  app.action([&] { status = weir::bench::run(options); });
  try {
    const int wrong = app.run(argc, argv);
    return wrong != 0 ? wrong : status;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
}
