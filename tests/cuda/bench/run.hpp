// run.hpp: one run of bench_gpu: its options, its clock, and the copy that everything is compared with.
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
  int headline_log = 28;  ///< for the part `kernels`
  int plan_log = 26;      ///< for the part `plans`, on each rank
  int ranks = 4;
  int repeats = 20;
  double seconds = 360;                 ///< after this time, no new measurement begins
  std::vector<std::string> algorithms;  ///< for the part `plans`; if empty, all sparse ones
  std::string json, torch;
};

/// Measures the rows of all parts.
class Run {
 public:
  explicit Run(Options options_of_run) : options(std::move(options_of_run)) {}

  /// Measures the copy, with the headline size or the largest that fits into memory. Call it first.
  void measure_copy();
  /// Returns the milliseconds that reading and writing `bytes` bytes takes at the speed of the copy.
  [[nodiscard]] double limit_ms(double bytes) const { return bytes / bytes_per_ms_; }
  /// Returns the median milliseconds of the work that `work` puts onto `stream`, over repeated runs (fewer if they take long).
  /// `prepare`, called before each run, is not timed.
  [[nodiscard]] double milliseconds(void* stream, const std::function<void()>& prepare, const std::function<void()>& work) const;
  /// Returns why a measurement with `bytes` bytes of GPU memory cannot begin (no memory, or no time), or nothing if it can.
  [[nodiscard]] std::optional<std::string> why_not(std::int64_t bytes) const;
  /// Returns torch.topk's milliseconds if options.torch has them.
  [[nodiscard]] std::optional<double> torch_ms(std::int64_t count, std::int64_t k) const;
  /// Reads options.torch. Throws std::runtime_error that names the file.
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

/// The functions for the parts. They add all rows to run.report.
void measure_kernels(Run& run);
void measure_grid(Run& run);
void measure_plans(Run& run);

}  // namespace weir::bench
