// run.hpp: one run of bench_gpu: what was asked for, the clock, the copy that everything is measured against.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/report.hpp"

namespace weir::bench {

struct Options {
  std::vector<std::string> parts = {"kernels", "plans", "grid"};
  int largest_log = 30;   ///< arrays of up to 2^largest_log floats
  int headline_log = 28;  ///< part kernels
  int plan_log = 26;      ///< part plans, a rank
  int ranks = 4;
  int repeats = 20;
  double seconds = 360;                 ///< nothing new is begun after that
  std::vector<std::string> algorithms;  ///< of part plans; empty: all sparse ones
  std::string json, torch;
};

/// What the rows of one part are measured with.
class Run {
 public:
  explicit Run(Options options_of_run) : options(std::move(options_of_run)) {}

  /// Measures the copy, of the headline size or what there is memory for. Call first.
  void measure_copy();
  /// Milliseconds that so many bytes, read or written, take at the speed of the copy.
  [[nodiscard]] double limit_ms(double bytes) const { return bytes / bytes_per_ms_; }
  /// Milliseconds, the median of repeated runs (fewer where they take long), of what `work` puts onto `stream`; `prepare`, before
  /// each, is not timed.
  [[nodiscard]] double milliseconds(void* stream, const std::function<void()>& prepare, const std::function<void()>& work) const;
  /// Why so many bytes of GPU memory cannot be had or no more may be begun; nothing if they can.
  [[nodiscard]] std::optional<std::string> why_not(std::int64_t bytes) const;
  /// torch.topk's milliseconds, where options.torch has them.
  [[nodiscard]] std::optional<double> torch_ms(std::int64_t count, std::int64_t k) const;
  /// Throws std::runtime_error naming the file.
  void read_torch();

  const Options options;
  Report report;

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] static std::optional<std::string> why_no_memory(std::int64_t bytes);
  [[nodiscard]] double elapsed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  Clock::time_point begin_ = Clock::now();
  double bytes_per_ms_ = 0;
  std::map<std::pair<std::int64_t, std::int64_t>, double> torch_;
};

[[nodiscard]] double median(std::vector<double> values);

/// The parts. All rows go to run.report.
void measure_kernels(Run& run);
void measure_grid(Run& run);
void measure_plans(Run& run);

}  // namespace weir::bench
