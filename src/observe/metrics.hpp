// metrics.hpp: what a communicator has done so far, as a file of the Prometheus text format for the node exporter's textfile
// collector.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <weir/observer.hpp>

#include "observe/identity.hpp"

namespace weir {

/// Counts calls. Belongs to one thread at a time, as its communicator does. Does not count the communicator's own runs.
class Metrics final : public Observer {
 public:
  /// Writes the file for the first time. Throws Error(WEIR_ERR_ARGUMENT) naming the file and the reason, for example that it
  /// exists.
  Metrics(const std::string& folder, const Identity& identity, LogLevel log);
  ~Metrics() override;

  void begin(const RunInfo& run) noexcept override;
  void stage(const RunInfo& run, std::string_view name, Time begin, Time end) noexcept override;
  void end(const RunInfo& run) noexcept override;
  void wait(const RunInfo& run, Time begin, Time end) noexcept override;
  void tested(const RunInfo& run, double seconds) noexcept override;
  void update(const UpdateInfo& update) noexcept override;

 private:
  /// What is known of the calls of one name.
  struct Call {
    std::int64_t runs = 0;
    double compression = 0;     ///< dense bytes over payload bytes sent in the last run; 0: not known
    double residual_norm = -1;  ///< the last one sampled; negative if there was no sample
  };

  /// Runs body(). If it runs out of memory, the event is not counted.
  template <class Body>
  void count(Body body) noexcept;
  [[nodiscard]] Call& call(std::string_view name);
  void write() noexcept;
  [[nodiscard]] std::string text() const;

  std::string path_, labels_;
  LogLevel log_;
  bool ended_ = false;
  bool failed_ = false;  // one warning is enough
  Time written_;
  std::map<std::string, Call, std::less<>> calls_;
  std::map<weir_status, std::int64_t> errors_;
  TrafficCount traffic_;
  std::map<std::string_view, double> seconds_;  // by stage
  double waited_ = 0;
};

}  // namespace weir
