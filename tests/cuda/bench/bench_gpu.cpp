// bench_gpu: kernels for CUDA memory against the bandwidth of a copy measured in the same run, and a whole plan by stages. A
// program of its own, without MPI, so that it can travel to a machine that has only a driver.
#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "cuda/check.hpp"
#include "cuda/runtime.hpp"
#include "kernels/device.hpp"
#include "plan/communicator.hpp"
#include "plan/device_selector.hpp"
#include "transport/inproc/inproc_transport.hpp"

namespace {

using namespace weir;
namespace device = kernels::cuda;

constexpr int repeats = 20;

/// Milliseconds, the median over `repeats`, of what `work` puts onto the stream; `prepare`, before each, is not timed.
double milliseconds(void* stream, const std::function<void()>& prepare, const std::function<void()>& work) {
  const auto native = static_cast<cudaStream_t>(stream);
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "making an event");
  check(cudaEventCreate(&end), "making an event");
  std::vector<float> times;
  for (int i = -3; i < repeats; ++i) {
    prepare();
    check(cudaEventRecord(begin, native), "recording an event");
    work();
    check(cudaEventRecord(end, native), "recording an event");
    check(cudaEventSynchronize(end), "waiting for an event");
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, begin, end), "reading a clock");
    if (i >= 0) times.push_back(elapsed);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[repeats / 2];
}

struct Row {
  std::string kernel;
  std::int64_t count, k;
  std::string entropy;
  double ms, limit_ms;  ///< the least that its bytes take at the bandwidth of the copy
};

/// Gradients whose magnitudes have the bits of one, the bitwise and of two or of four random numbers: ever more ties (as CUB's
/// benchmarks make them).
std::vector<float> random_floats(std::int64_t count, int ands, std::uint64_t seed) {
  std::vector<float> x(static_cast<std::size_t>(count));
  const auto fill = [&](std::size_t begin, std::size_t end) {
    std::uint64_t state = seed + begin * 0x9e3779b97f4a7c15ull;
    const auto next = [&] {
      std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
      return z ^ (z >> 31);
    };
    for (std::size_t i = begin; i < end; ++i) {
      std::uint64_t bits = next();
      for (int a = 1; a < ands; ++a) bits &= next();
      // A normal number of magnitude 1 to 2, cubed: heavy tails; the sign from a bit of its own.
      const float unit = static_cast<float>(bits & 0xffffff) * 0x1p-24f;
      x[i] = (bits >> 63 ? 1.0f : -1.0f) * unit * unit * unit;
    }
  };
  const std::size_t parts = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < parts; ++p) threads.emplace_back(fill, x.size() * p / parts, x.size() * (p + 1) / parts);
  for (std::thread& thread : threads) thread.join();
  return x;
}

class Bench {
 public:
  explicit Bench(std::int64_t largest)
      : gradient_(largest), residual_(largest), scratch_(device::scratch_bytes(largest)), found_(1), kth_(1), kept_(1) {
    const std::int64_t size = std::min<std::int64_t>(largest, std::int64_t{1} << 28);
    const double ms = milliseconds(
        stream_.get(), [] {}, [&] { cuda::copy(residual_.data(), gradient_.data(), size * 4, stream_.get()); });
    bytes_per_ms_ = 8.0 * static_cast<double>(size) / ms;
    fmt::print("copy: {:.0f} GB/s, read and written, {} floats\n", bytes_per_ms_ * 1e-6, size);
  }

  void measure(std::int64_t count, std::int64_t k, int ands) {
    const std::vector<float> x = random_floats(count, ands, 1);
    cuda::copy(gradient_.data(), x.data(), count * 4, stream_.get());
    device::fill_zero(queue(), residual_.data(), count);
    const std::int64_t capacity = std::min(count, 2 * k + 4096);
    cuda::DeviceArray<std::uint32_t> indices(capacity), kept_indices(capacity);
    cuda::DeviceArray<float> values(capacity), kept_values(capacity);
    const std::string entropy = fmt::format("and of {}", ands);
    const double n = static_cast<double>(count), entries = static_cast<double>(k);
    const auto add = [&](const char* kernel, double bytes, const std::function<void()>& prepare,
                         const std::function<void()>& work) {
      rows_.push_back({kernel, count, k, entropy, milliseconds(stream_.get(), prepare, work), bytes / bytes_per_ms_});
      print(rows_.back());
    };

    device::kth_key<float, float>(queue(), gradient_.data(), {count, nullptr}, k, kth_.data());
    KthKey<float> kth{};
    cuda::copy(&kth, kth_.data(), sizeof kth, stream_.get());
    check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream_.get())), "waiting for a stream");
    const auto nothing = [] {};
    const auto clear = [&] { device::fill_zero(queue(), residual_.data(), count); };
    const Key<float> keep_old = key_infinity<float>;

    add("select, known threshold", 4 * n, nothing, [&] {
      device::select<float, float>(queue(), gradient_.data(), count, kth.key, indices.data(), values.data(), capacity,
                                   found_.data());
    });
    add("compensate and select", 12 * n, clear, [&] {
      device::compensate_select(queue(), gradient_.data(), residual_.data(), count, kth.key, keep_old, indices.data(),
                                values.data(), capacity, found_.data());
    });
    add("kth of everything", 4 * n, nothing, [&] {
      device::kth_key<float, float>(queue(), gradient_.data(), {count, nullptr}, k, kth_.data());
    });
    const Key<float> lower = static_cast<Key<float>>(kth.key - std::min<Key<float>>(kth.key - 1, 1u << 19));
    add("exact, warm", 4 * n, nothing, [&] {
      device::select<float, float>(queue(), gradient_.data(), count, lower, indices.data(), values.data(), capacity, found_.data());
      device::kth_key<float, float>(queue(), values.data(), {capacity, &found_.data()->hits}, k, kth_.data());
      device::select_ties<float, float>(queue(), indices.data(), values.data(), {capacity, &found_.data()->hits}, k, kth_.data(),
                                        kept_indices.data(), kept_values.data(), nullptr, 0, kept_.data());
    });
    add("scatter into zeros", 4 * n + (8 + 32) * entries, nothing, [&] {
      device::fill_zero(queue(), residual_.data(), count);
      device::scatter<float, float>(queue(), residual_.data(), kept_indices.data(), kept_values.data(), {k, nullptr});
    });
    add("settle", (8 + 4 + 32) * entries, nothing, [&] {
      device::settle(queue(), residual_.data(), kept_indices.data(), kept_values.data(), {k, nullptr}, kept_indices.data(),
                     {k, nullptr});
    });
    add("merge_add of two", (16 + 8) * entries, nothing, [&] {
      device::merge_add(queue(), kept_indices.data(), kept_values.data(), {k / 2, nullptr}, kept_indices.data() + k / 2,
                        kept_values.data() + k / 2, {k - k / 2, nullptr}, indices.data(), values.data(), kept_.data());
    });
  }

  void header() const {
    fmt::print("{:<26} {:>12} {:>10} {:<9} {:>10} {:>10} {:>7}\n", "kernel", "count", "k", "entropy", "ms", "limit ms", "share");
  }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

 private:
  [[nodiscard]] device::Queue queue() const { return {stream_.get(), scratch_.data(), cuda::current_device()}; }
  static void print(const Row& row) {
    fmt::print("{:<26} {:>12} {:>10} {:<9} {:>10.4f} {:>10.4f} {:>7.2f}\n", row.kernel, row.count, row.k, row.entropy, row.ms,
               row.limit_ms, row.limit_ms / row.ms);
  }

  cuda::Stream stream_;
  cuda::DeviceArray<float> gradient_, residual_;
  cuda::DeviceArray<std::byte> scratch_;
  cuda::DeviceArray<device::Found> found_;
  cuda::DeviceArray<KthKey<float>> kth_;
  cuda::DeviceArray<std::int64_t> kept_;
  double bytes_per_ms_ = 0;
  std::vector<Row> rows_;
};

/// `ranks` virtual ranks on one GPU: milliseconds by stage, medians over iterations of the slowest rank.
nlohmann::json measure_plan(int ranks, std::int64_t count, double density) {
  InprocJob job(ranks, 0);
  std::vector<std::vector<Statistics>> all(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Settings settings;
      Communicator comm(detail::make_communicator(job.transport(rank), Location{}, settings));
      AllreducePlan plan(comm, {.count = count, .memory = MemorySpace::cuda, .density = density});
      const cuda::Stream stream;
      const cuda::DeviceArray<float> original(count), gradient(count);
      const std::vector<float> x = random_floats(count, 1, static_cast<std::uint64_t>(rank + 7));
      cuda::copy(original.data(), x.data(), count * 4, stream.get());
      for (int t = -5; t < repeats; ++t) {
        cuda::copy(gradient.data(), original.data(), count * 4, stream.get());
        plan.run(gradient.data(), stream.get());
        if (t >= 0) all[static_cast<std::size_t>(rank)].push_back(plan.statistics());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  nlohmann::json row{{"benchmark", "plan"}, {"ranks", ranks}, {"count", count}, {"density", density}};
  const auto stage = [&](const char* name, double Statistics::*member) {
    std::vector<double> slowest;
    for (int t = 0; t < repeats; ++t) {
      double most = 0;
      for (const auto& of_rank : all) most = std::max(most, of_rank[static_cast<std::size_t>(t)].*member);
      slowest.push_back(most * 1e3);
    }
    std::nth_element(slowest.begin(), slowest.begin() + repeats / 2, slowest.end());
    row[name] = slowest[repeats / 2];
    fmt::print("  {:<10} {:>9.3f} ms\n", name, slowest[repeats / 2]);
  };
  fmt::print("plan: {} ranks on one GPU, {} floats each, density {}\n", ranks, count, density);
  stage("select", &Statistics::seconds_select);
  stage("exchange", &Statistics::seconds_exchange);
  stage("apply", &Statistics::seconds_apply);
  stage("total", &Statistics::seconds_total);
  return row;
}

int run(const std::string& json) {
  if (!cuda::why_unusable().empty()) {
    fmt::print("skipped: {}\n", cuda::why_unusable());
    return 77;
  }
  const cuda::DeviceInfo info = cuda::describe(0);
  fmt::print("{}, compute capability {}.{}\n", info.name, info.major, info.minor);
  nlohmann::json out = nlohmann::json::array();
  const int largest_log = info.bytes > std::int64_t{40} << 30 ? 30 : info.bytes > std::int64_t{10} << 30 ? 28 : 22;
  {
    Bench bench(std::int64_t{1} << largest_log);
    bench.header();
    for (int log = 16; log <= largest_log; log += log < 28 ? 4 : 2) {
      const std::int64_t count = std::int64_t{1} << log;
      for (const int ands : {1, 2, 4}) {
        if (log != std::min(28, largest_log) && ands != 1) continue;
        for (const double density : {0.01, 0.001})
          bench.measure(count, std::max<std::int64_t>(1, std::llround(density * static_cast<double>(count))), ands);
      }
    }
    for (const Row& row : bench.rows())
      out.push_back({{"benchmark", "kernel"},
                     {"kernel", row.kernel},
                     {"count", row.count},
                     {"k", row.k},
                     {"entropy", row.entropy},
                     {"ms", row.ms},
                     {"limit_ms", row.limit_ms},
                     {"share", row.limit_ms / row.ms}});
  }
  for (const double density : {0.01, 0.001}) out.push_back(measure_plan(4, std::int64_t{1} << std::min(26, largest_log), density));
  if (!json.empty()) std::ofstream(json) << out.dump(1) << '\n';
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    fmt::print("usage: bench_gpu [FILE.json]\nKernels for CUDA memory against the bandwidth of a copy, and a plan by stages.\n");
    return argc == 2 && (std::string(argv[1]) == "-h" || std::string(argv[1]) == "--help") ? 0 : 2;
  }
  try {
    return run(argc == 2 ? argv[1] : "");
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_gpu: {}\n", error.what());
    return 1;
  }
}
