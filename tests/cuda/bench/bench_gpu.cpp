// bench_gpu: kernels for CUDA memory against the bandwidth of a copy measured in the same run, whole plans by stages, and exact
// selection on the axes of CUB's benchmark. A program of its own, without MPI, so that it can travel to a machine that has only a
// driver.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include "bench/run.hpp"
#include "cuda/runtime.hpp"

namespace weir::bench {
namespace {

void parse(CLI::App& app, Options& options) {
  app.add_option("--parts", options.parts, "what to measure, of kernels, plans and grid")
      ->check(CLI::IsMember({"kernels", "plans", "grid"}))
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--largest", options.largest_log, "arrays of 2^LARGEST floats at most")
      ->check(CLI::Range(10, 31))
      ->capture_default_str();
  app.add_option("--headline", options.headline_log, "part kernels: 2^HEADLINE floats")
      ->check(CLI::Range(10, 31))
      ->capture_default_str();
  app.add_option("--plan", options.plan_log, "part plans: 2^PLAN floats a rank")->check(CLI::Range(10, 30))->capture_default_str();
  app.add_option("--ranks", options.ranks, "part plans: virtual ranks")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--algorithm", options.algorithms, "part plans: registry names; without, all sparse ones")->delimiter(',');
  app.add_option("--repeats", options.repeats, "measurements, of which the median counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "nothing new is begun after that")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--torch", options.torch, "what bench_torch_topk.py has written on the same GPU, to compare with")
      ->check(CLI::ExistingFile);
  app.add_option("--json", options.json, "also write the rows to this file");
}

/// After each part: what has been measured is not lost should the GPU fail later.
void write(const Run& run) {
  const std::string& name = run.options.json;
  if (name.empty()) return;
  std::ofstream file(name);
  file << run.report.rows().dump(1) << '\n';
  if (!file.flush()) throw std::runtime_error(fmt::format("'{}' cannot be written", name));
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
    write(run);
  }
  fmt::print("\n{}\n", run.report.verdict());
  return 0;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  CLI::App app("Kernels for CUDA memory against the bandwidth of a copy, plans by stages, exact selection of many sizes.");
  weir::bench::Options options;
  weir::bench::parse(app, options);
  try {
    app.parse(argc, argv);
    return weir::bench::run(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
}
