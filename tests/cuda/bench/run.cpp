#include "bench/run.hpp"

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "cuda/check.hpp"
#include "cuda/runtime.hpp"

namespace weir::bench {
namespace {

/// An event with a time, unlike cuda::Event.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreateWithFlags(&event_, cudaEventDefault), "making an event"); }
  ~TimedEvent() { cudaEventDestroy(event_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(void* stream) { check(cudaEventRecord(event_, static_cast<cudaStream_t>(stream)), "recording an event"); }
  [[nodiscard]] double milliseconds_since(const TimedEvent& begin) const {
    check(cudaEventSynchronize(event_), "waiting for an event");
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, begin.event_, event_), "reading a clock");
    return elapsed;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void Run::measure_copy() {
  std::int64_t size = std::int64_t{1} << std::min(options.headline_log, options.largest_log);
  while (why_no_memory(2 * 4 * size)) size /= 2;
  const cuda::Stream stream;
  const cuda::DeviceArray<float> from(size), to(size);
  // Take the best of several, because clocks rise slowly, and a slow copy would make everything else look good.
  double ms = std::numeric_limits<double>::infinity();
  for (int attempt = 0; attempt < 10; ++attempt) {
    ms = std::min(ms, milliseconds(
                          stream.get(), [] {}, [&] { cuda::copy(to.data(), from.data(), from.bytes(), stream.get()); }));
  }
  bytes_per_ms_ = 2.0 * static_cast<double>(from.bytes()) / ms;
  fmt::print("copy of {} floats: {:.0f} GB/s, read and written\n", size, bytes_per_ms_ * 1e-6);
  report.add({{"benchmark", "copy"}, {"count", size}, {"ms", ms}, {"gigabytes_per_second", bytes_per_ms_ * 1e-6}}, nullptr);
}

double Run::milliseconds(void* stream, const std::function<void()>& prepare, const std::function<void()>& work) const {
  constexpr int warmup = 3, fewest = 5;
  constexpr double most_ms = 500;
  TimedEvent begin, end;
  std::vector<double> times;
  double total = 0;
  for (int i = -warmup; i < options.repeats && (i < fewest || total < most_ms); ++i) {
    prepare();
    begin.record(stream);
    work();
    end.record(stream);
    const double ms = end.milliseconds_since(begin);
    if (i >= 0) times.push_back(ms);
    total += ms;
  }
  return median(std::move(times));
}

std::optional<std::string> Run::why_not(std::int64_t bytes) const {
  if (elapsed() > options.seconds) return fmt::format("{:.0f} s are over (--seconds)", options.seconds);
  return why_no_memory(bytes);
}

std::optional<std::string> Run::why_no_memory(std::int64_t bytes) {
  std::size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "asking for free memory");
  // Leave room for the rounding of allocators and for the driver.
  if (static_cast<double>(bytes) * 1.05 > static_cast<double>(free))
    return fmt::format("out of memory: {} MiB are needed, {} MiB are free", bytes >> 20, free >> 20);
  return {};
}

std::optional<double> Run::torch_ms(std::int64_t count, std::int64_t k) const {
  const auto found = torch_.find({count, k});
  return found == torch_.end() ? std::nullopt : std::optional(found->second);
}

void Run::read_torch() {
  if (options.torch.empty()) return;
  try {
    std::ifstream file(options.torch);
    const JsonValue rows = JsonValue::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    for (const JsonView row : rows.view().elements()) {
      if (row.at("benchmark") == "torch_topk") torch_[{row.at("count").integer(), row.at("k").integer()}] = row.at("ms").number();
    }
  } catch (const JsonError& error) {
    throw std::runtime_error(fmt::format("'{}' is not what bench_torch_topk.py writes: {}", options.torch, error.what()));
  }
}

}  // namespace weir::bench
