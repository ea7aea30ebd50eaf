// metrics.hpp: what a communicator has done so far, as a file of the Prometheus text format for the node exporter's textfile
// collector.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

#include "async/channel.hpp"
#include "async/identity.hpp"
#include "async/stage.hpp"

namespace weir::detail {

/// Belongs to one thread at a time, as its communicator. Plans and table calls of one name are counted together.
class Metrics {
 public:
  /// What is known of one plan or table call.
  struct Call {
    std::int64_t runs = 0;
    double compression = 0;     ///< dense bytes over payload bytes sent in the last run; 0: not known
    double residual_norm = -1;  ///< the last one sampled; negative: none
  };

  /// Writes the file for the first time. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason.
  Metrics(const std::string& folder, const Identity& identity, LogLevel log);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  /// A run has ended.
  void add(const Run& run, const TrafficCount& traffic, double seconds_waited);
  [[nodiscard]] Call& call(std::string_view name);

 private:
  void write() noexcept;
  [[nodiscard]] std::string text() const;

  std::string path_, labels_;
  LogLevel log_;
  bool failed_ = false;  // once is enough to say so
  Clock::time_point written_;
  std::map<std::string, Call, std::less<>> calls_;
  std::map<weir_status, std::int64_t> errors_;
  std::array<std::int64_t, level_count> sent_{}, received_{};
  std::array<double, stage_count> seconds_{};
  double waited_ = 0;
};

}  // namespace weir::detail
