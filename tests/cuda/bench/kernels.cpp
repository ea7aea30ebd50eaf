// Part kernels: the kernels that plans run on arrays of the gradient's size and on the selection, at the sizes for which there are
// bounds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/exact.hpp"
#include "bench/inputs.hpp"
#include "bench/run.hpp"

namespace weir::bench {
namespace {

namespace device = kernels::cuda;

/// Returns the number of sectors that hold floats with these indices. A sector of 32 bytes is the smallest access to memory.
std::int64_t sectors_of(const std::uint32_t* indices, std::int64_t count, void* stream) {
  std::vector<std::uint32_t> list(static_cast<std::size_t>(count));
  cuda::copy(list.data(), indices, count * 4, stream);
  cuda::synchronize(stream);
  for (std::uint32_t& index : list) index /= 8;
  return std::unique(list.begin(), list.end()) - list.begin();
}

/// Measures all kernels for one k of 2^headline_log floats.
class Kernels {
 public:
  Kernels(Run& run, std::int64_t count, std::int64_t k)
      : run_(run), count_(count), k_(k), gradient_(count), residual_(count), exact_(count, k, stream_.get()) {
    fill_random(stream_.get(), gradient_.data(), count, 1, 1);
    exact_.learn(gradient_.data());
  }

  static std::int64_t bytes(std::int64_t count, std::int64_t k) { return 8 * count + Exact::bytes(count, k); }

  void measure() {
    measure_passes();
    measure_exact();
    measure_sums();
    measure_entries();
  }

 private:
  /// Compares `work` with `bytes` bytes at the speed of the copy. Returns its milliseconds.
  double add(const char* name, double bytes, double bound, const std::function<void()>& prepare,
             const std::function<void()>& work) {
    const double ms = run_.milliseconds(stream_.get(), prepare, work);
    run_.report.add({name, count_, k_, entropies[0].name, ms, "bytes at copy speed", run_.limit_ms(bytes), bound});
    return ms;
  }

  void measure_passes() {
    const Key<float> threshold = exact_.kth().key;
    add("select, known threshold", 4 * n(), 0.85, nothing, [&] {
      device::select<float, float>(exact_.queue(), gradient_.data(), count_, threshold, exact_.spare_indices(),
                                   exact_.spare_values(), exact_.capacity(), exact_.found());
    });
    const auto clear = [&] { device::fill_zero(exact_.queue(), residual_.data(), count_); };
    add("compensate and select", 12 * n(), 0.85, clear, [&] {
      device::compensate_select(exact_.queue(), gradient_.data(), residual_.data(), count_, threshold, key_infinity<float>,
                                exact_.spare_indices(), exact_.spare_values(), exact_.capacity(), exact_.found());
    });
    add("fill_zero", 4 * n(), 0, nothing, clear);
  }

  void measure_exact() {
    add("exact, first iteration", 8 * n(), 0.7, nothing, [&] { exact_.cold(gradient_.data()); });
    exact_.check();
    add("exact, everything ranked", 16 * n(), 0, nothing, [&] { exact_.ranked(gradient_.data()); });
    exact_.check();
    const double warm_ms = add("exact, warm", 4 * n(), 0.75, nothing, [&] { exact_.warm(gradient_.data()); });
    exact_.check();
    if (const auto torch = run_.torch_ms(count_, k_))
      run_.report.add({"exact, warm", count_, k_, entropies[0].name, warm_ms, "torch.topk", *torch, 10});
    if (const auto reason = run_.why_not(SortedTopK::bytes(count_))) {
      run_.report.skip("exact, warm, against a sort", count_, k_, *reason);
      return;
    }
    const cuda::DeviceArray<std::byte> memory(SortedTopK::bytes(count_));
    const double sorted_ms =
        run_.milliseconds(stream_.get(), nothing, [&] { SortedTopK::run(stream_.get(), gradient_.data(), count_, memory.data()); });
    run_.report.add({"exact, warm", count_, k_, entropies[0].name, warm_ms, "CUB radix sort", sorted_ms, 0});
  }

  void measure_sums() {
    const cuda::DeviceArray<Moments<float>> moments(1);
    const cuda::DeviceArray<Exceedances<float>> exceedances(1);
    add("moments of g + r", 8 * n(), 0, nothing, [&] {
      device::moments<float, float>(exact_.queue(), gradient_.data(), residual_.data(), {count_, nullptr}, moments.data());
    });
    add("exceedances", 4 * n(), 0, nothing, [&] {
      device::exceedances<float, float>(exact_.queue(), gradient_.data(), nullptr, {count_, nullptr}, exact_.kth().key,
                                        exceedances.data());
    });
  }

  /// Measures the kernels on the selection. An index and a value are 8 bytes. An entry of a dense array costs its sector.
  void measure_entries() {
    exact_.warm(gradient_.data());
    const std::int64_t entries = exact_.selected(), half = entries / 2;
    const std::uint32_t* const indices = exact_.indices();
    const float* const values = exact_.values();
    const auto k = static_cast<double>(entries);
    const double sectors = 32 * static_cast<double>(sectors_of(indices, entries, stream_.get()));
    // the bound allows 1.5 times the time of the bytes that it must touch
    add("scatter_add", 8 * k + 2 * sectors, 1 / 1.5, nothing,
        [&] { device::scatter_add(exact_.queue(), residual_.data(), indices, values, entries); });
    add("zeros and scatter", 4 * n() + 8 * k + 2 * sectors, 0, nothing, [&] {
      device::fill_zero(exact_.queue(), residual_.data(), count_);
      device::scatter<float, float>(exact_.queue(), residual_.data(), indices, values, {entries, nullptr});
    });
    add("settle", (8 + 4) * k + 2 * sectors, 0, nothing, [&] {
      device::settle(exact_.queue(), residual_.data(), indices, values, {entries, nullptr}, indices, {entries, nullptr});
    });
    // Merged with itself, every index occurs twice, which is the hardest case.
    const cuda::DeviceArray<std::int64_t> merged(1);
    add("merge_add with itself", 12 * k, 0, nothing, [&] {
      device::merge_add(exact_.queue(), indices, values, {half}, indices, values, {half}, exact_.spare_indices(),
                        exact_.spare_values(), merged.data());
    });
  }

  [[nodiscard]] double n() const { return static_cast<double>(count_); }

  const std::function<void()> nothing = [] {};
  Run& run_;
  std::int64_t count_, k_;
  cuda::Stream stream_;
  cuda::DeviceArray<float> gradient_, residual_;
  Exact exact_;
};

}  // namespace

void measure_kernels(Run& run) {
  run.report.begin("kernels: share of the time that their bytes take at the speed of the copy");
  const std::int64_t count = std::int64_t{1} << std::min(run.options.headline_log, run.options.largest_log);
  for (const double density : {0.01, 0.001}) {
    const std::int64_t k = std::max<std::int64_t>(1, std::llround(density * static_cast<double>(count)));
    if (const auto reason = run.why_not(Kernels::bytes(count, k)))
      run.report.skip("kernels", count, k, *reason);
    else
      Kernels(run, count, k).measure();
  }
  if (run.options.torch.empty()) {
    fmt::print(
        "exact, warm, against torch.topk (bound 10): not measured here. Where Python has torch: bench_torch_topk.py topk.json, "
        "then "
        "bench_gpu --torch topk.json\n");
  }
}

}  // namespace weir::bench
