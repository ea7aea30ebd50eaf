#include "communicator/metrics.hpp"

#include <filesystem>
#include <iterator>

#include "async/flight_recorder.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"

namespace weir::detail {
namespace {

constexpr std::chrono::seconds writing_interval{5};

/// Escapes the value of a label. Bytes that are no UTF-8 are replaced.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : JsonValue::parse(JsonValue(text).text(-1)).view().string()) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

/// One metric: its help, its type, and a line for each set of labels.
class Family {
 public:
  Family(std::string& text, std::string_view common, std::string_view name, std::string_view type, std::string_view help)
      : text_(text), common_(common), name_(name) {
    fmt::format_to(std::back_inserter(text_), "# HELP {0} {1}\n# TYPE {0} {2}\n", name, help, type);
  }
  void line(std::string_view labels, double value) {
    fmt::format_to(std::back_inserter(text_), "{}{{{}{}{}}} {}\n", name_, common_, labels.empty() ? "" : ",", labels, value);
  }

 private:
  std::string& text_;
  std::string_view common_, name_;
};

}  // namespace

Metrics::Metrics(const std::string& folder, const Identity& identity, LogLevel log)
    : path_(identity.file(folder, "weir", "prom")),
      labels_(fmt::format("job=\"{}\",communicator=\"{}\",rank=\"{}\"", identity.name(), identity.communicator, identity.rank)),
      log_(log) {
  require(!std::filesystem::exists(path_), "{} is there: no other run may have the number of this one", path_);
  write_whole_file(path_, text());
  written_ = Clock::now();
}

Metrics::~Metrics() {
  ended_ = true;
  write();
}

Metrics::Call& Metrics::call(std::string_view name) {
  const auto found = calls_.find(name);
  return found != calls_.end() ? found->second : calls_.emplace(name, Call{}).first->second;
}

void Metrics::add(const Run& run, const TrafficCount& traffic, double seconds_waited) {
  ++call(run.counted_as).runs;
  for (std::size_t level = 0; level < level_count; ++level) {
    sent_[level] += traffic.bytes_sent[level];
    received_[level] += traffic.bytes_received[level];
  }
  for (std::size_t stage = 0; stage < stage_count; ++stage) seconds_[stage] += run.seconds[stage];
  waited_ += seconds_waited;
  if (run.error) {
    try {
      std::rethrow_exception(run.error);
    } catch (const Error& error) {
      ++errors_[error.status()];
    } catch (...) {
      ++errors_[WEIR_ERR_INTERNAL];
    }
  }
  // After an error there may be no later time.
  if (run.error || Clock::now() - written_ > writing_interval) write();
}

void Metrics::write() noexcept {
  try {
    write_whole_file(path_, text());
    failed_ = false;
  } catch (const std::exception& error) {
    if (!failed_) weir::log(log_, LogLevel::warn, "metrics: {}", error.what());
    failed_ = true;
  }
  written_ = Clock::now();
}

std::string Metrics::text() const {
  std::string all;
  {
    Family runs(all, labels_, "weir_runs_total", "counter", "Runs of plans and table calls that have ended.");
    for (const auto& [name, call] : calls_) runs.line(fmt::format("call=\"{}\"", escaped(name)), static_cast<double>(call.runs));
  }
  {
    Family errors(all, labels_, "weir_errors_total", "counter", "Runs that have ended with an error, by status code.");
    for (const auto& [status, count] : errors_)
      errors.line(fmt::format("status=\"{}\"", static_cast<int>(status)), static_cast<double>(count));
  }
  {
    Family bytes(all, labels_, "weir_bytes_total", "counter",
                 "Bytes of messages, by the nearest common level of the two ranks. Not what goes through shared memory, NCCL and "
                 "the MPI library's own allreduce.");
    for (std::size_t level = 0; level < level_count; ++level) {
      if (sent_[level] == 0 && received_[level] == 0) continue;
      const std::string_view name = level_name(static_cast<Level>(level));
      bytes.line(fmt::format("level=\"{}\",direction=\"sent\"", name), static_cast<double>(sent_[level]));
      bytes.line(fmt::format("level=\"{}\",direction=\"received\"", name), static_cast<double>(received_[level]));
    }
  }
  {
    Family seconds(all, labels_, "weir_stage_seconds_total", "counter", "Seconds in a stage of runs, stages within it included.");
    for (std::size_t stage = 0; stage < stage_count; ++stage) {
      if (seconds_[stage] > 0) seconds.line(fmt::format("stage=\"{}\"", stage_list[stage].name), seconds_[stage]);
    }
  }
  Family(all, labels_, "weir_waited_seconds_total", "counter", "Seconds that the caller has spent in wait, test and run.")
      .line("", waited_);
  {
    Family compression(all, labels_, "weir_compression_ratio", "gauge", "Bytes of the gradient over payload bytes sent, last run.");
    for (const auto& [name, call] : calls_) {
      if (call.compression > 0) compression.line(fmt::format("call=\"{}\"", escaped(name)), call.compression);
    }
  }
  {
    Family norm(all, labels_, "weir_residual_norm", "gauge",
                "Euclidean norm of the residual, estimated from a sample now and then.");
    for (const auto& [name, call] : calls_) {
      if (call.residual_norm >= 0) norm.line(fmt::format("call=\"{}\"", escaped(name)), call.residual_norm);
    }
  }
  if (ended_) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    Family(all, labels_, "weir_end_time_seconds", "gauge", "When the communicator has ended, in seconds since 1970.")
        .line("", now.count());
  }
  return all;
}

}  // namespace weir::detail
