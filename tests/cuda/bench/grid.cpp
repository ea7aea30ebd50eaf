// Part grid: the exact selection of k of n floats, on the axes of CUB's own benchmark of top-k, and of 2^30 floats.
#include <algorithm>
#include <memory>

#include "bench/exact.hpp"
#include "bench/inputs.hpp"
#include "bench/run.hpp"

namespace weir::bench {
namespace {

void measure_cell(Run& run, const float* x, std::int64_t count, std::int64_t k, const Entropy& entropy, void* stream) {
  if (const auto reason = run.why_not(Exact::bytes(count, k))) {
    run.report.skip("exact", count, k, *reason);
    return;
  }
  Exact exact(count, k, stream);
  exact.learn(x);
  const bool warm = exact.warm_is_exact(x);
  const double ms = run.milliseconds(
      stream, [] {}, [&] { warm ? exact.warm(x) : exact.ranked(x); });
  exact.check();
  run.report.add({warm ? "exact, warm" : "exact, everything ranked", count, k, entropy.name, ms, "one read at copy speed",
                  run.limit_ms(4 * static_cast<double>(count)), 0});
  if (const auto torch = entropy.ands == 1 ? run.torch_ms(count, k) : std::nullopt)
    run.report.add({"exact", count, k, entropy.name, ms, "torch.topk", *torch, 0});
}

/// The time is the same for every k, because a sort does not depend on k.
void measure_sort(Run& run, const float* x, std::int64_t count, const Entropy& entropy, void* stream) {
  const std::int64_t bytes = SortedTopK::bytes(count);
  if (const auto reason = run.why_not(bytes)) {
    run.report.skip("CUB radix sort, any k", count, 0, *reason);
    return;
  }
  const cuda::DeviceArray<std::byte> memory(bytes);
  const double ms = run.milliseconds(
      stream, [] {}, [&] { SortedTopK::run(stream, x, count, memory.data()); });
  run.report.add({"CUB radix sort, any k", count, 0, entropy.name, ms, "one read at copy speed",
                  run.limit_ms(4 * static_cast<double>(count)), 0});
}

}  // namespace

void measure_grid(Run& run) {
  run.report.begin("grid: exact selection; small arrays stay in the caches and pay for launches");
  const cuda::Stream stream;
  for (const int count_log : {16, 20, 24, 28, 30}) {
    const std::int64_t count = std::int64_t{1} << count_log;
    if (count_log > run.options.largest_log) continue;
    if (const auto reason = run.why_not(4 * count)) {
      run.report.skip("exact", count, 0, *reason);
      continue;
    }
    const cuda::DeviceArray<float> x(count);
    for (const Entropy& entropy : entropies) {
      fill_random(stream.get(), x.data(), count, entropy.ands, 1);
      measure_sort(run, x.data(), count, entropy, stream.get());
      for (const int k_log : {3, 7, 11, 15, 19, 23}) {
        if (k_log < count_log) measure_cell(run, x.data(), count, std::int64_t{1} << k_log, entropy, stream.get());
      }
    }
  }
}

}  // namespace weir::bench
