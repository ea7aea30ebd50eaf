// metrics.hpp: what a communicator has done so far, as a file of the Prometheus text format for the node exporter's textfile
// collector.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

#include "async/channel.hpp"
#include "async/identity.hpp"
#include "async/stage.hpp"

namespace weir::detail {

/// Says whether the residual's norm is estimated after this iteration: after some.
[[nodiscard]] constexpr bool samples_residual(std::int64_t iteration) { return iteration % 32 == 1; }
/// Estimates the sum of squares from some entries.
template <class T>
[[nodiscard]] double sampled_square(std::span<const T> x) {
  constexpr std::size_t entries = 4096;
  const std::size_t stride = std::max<std::size_t>(1, x.size() / entries);
  double sum = 0;
  std::size_t sampled = 0;
  for (std::size_t i = 0; i < x.size(); i += stride, ++sampled) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sampled == 0 ? 0 : sum / static_cast<double>(sampled) * static_cast<double>(x.size());
}

/// Belongs to one thread at a time, as its communicator. Plans and table calls of one name are counted together.
class Metrics {
 public:
  /// What is known of one plan or table call.
  struct Call {
    std::int64_t runs = 0;
    double compression = 0;     ///< dense bytes over payload bytes sent in the last run; 0: not known
    double residual_norm = -1;  ///< the last one sampled; negative: none
  };

  /// Writes the file for the first time. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason, such as that it is there.
  Metrics(const std::string& folder, const Identity& identity, LogLevel log);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// A run has ended.
  void add(const Run& run, const TrafficCount& traffic, double seconds_waited);
  /// The caller has waited for several runs together.
  void add_wait(double seconds) { waited_ += seconds; }
  [[nodiscard]] Call& call(std::string_view name);

 private:
  void write() noexcept;
  [[nodiscard]] std::string text() const;

  std::string path_, labels_;
  LogLevel log_;
  bool ended_ = false;
  bool failed_ = false;  // once is enough to say so
  Clock::time_point written_;
  std::map<std::string, Call, std::less<>> calls_;
  std::map<weir_status, std::int64_t> errors_;
  std::array<std::int64_t, level_count> sent_{}, received_{};
  std::array<double, stage_count> seconds_{};
  double waited_ = 0;
};

}  // namespace weir::detail
