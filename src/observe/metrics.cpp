#include "observe/metrics.hpp"

#include <filesystem>
#include <iterator>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/whole_file.hpp"

namespace weir {
namespace {

constexpr std::chrono::seconds file_interval{5};
constexpr int iterations_a_sample = 32;  // of the residual

/// Escapes the value of a label. Replaces bytes that are not UTF-8.
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

/// Formats one metric: its help, its type, and a line for each set of labels.
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
  written_ = std::chrono::steady_clock::now();
}

Metrics::~Metrics() {
  ended_ = true;
  write();
}

Metrics::Call& Metrics::call(std::string_view name) {
  const auto found = calls_.find(name);
  return found != calls_.end() ? found->second : calls_.emplace(name, Call{}).first->second;
}

template <class Body>
void Metrics::count(Body body) noexcept {
  try {
    body();
  } catch (const std::bad_alloc&) {
  }
}

void Metrics::begin(const RunInfo& run) noexcept {
  if (run.call != 0) count([&] { static_cast<void>(call(run.object)); });
}

void Metrics::stage(const RunInfo& run, std::string_view name, Time begin, Time end) noexcept {
  if (run.call != 0) count([&] { seconds_[name] += std::chrono::duration<double>(end - begin).count(); });
}

void Metrics::end(const RunInfo& run) noexcept {
  if (run.call == 0) return;
  count([&] {
    ++call(run.object).runs;
    if (run.status != WEIR_OK) ++errors_[run.status];
  });
  if (run.traffic != nullptr) {
    for (std::size_t level = 0; level < level_count; ++level) {
      traffic_.bytes_sent[level] += run.traffic->bytes_sent[level];
      traffic_.bytes_received[level] += run.traffic->bytes_received[level];
    }
  }
  // After an error there may be no later chance.
  if (run.status != WEIR_OK || std::chrono::steady_clock::now() - written_ > file_interval) write();
}

void Metrics::wait(const RunInfo& /*run*/, Time begin, Time end) noexcept {
  waited_ += std::chrono::duration<double>(end - begin).count();
}
void Metrics::tested(const RunInfo& /*run*/, double seconds) noexcept { waited_ += seconds; }

/// Counts an update. Samples the residual's norm: in some iterations, from some of its entries.
void Metrics::update(const UpdateInfo& update) noexcept {
  count([&] {
    Call& known = call(update.name);
    if (update.compression > 0) known.compression = update.compression;
    if (update.iteration % iterations_a_sample != 1) return;
    if (const double norm = update.residual_norm(); norm >= 0) known.residual_norm = norm;
  });
}

void Metrics::write() noexcept {
  try {
    write_whole_file(path_, text());
    failed_ = false;
  } catch (const std::exception& error) {
    if (!failed_) weir::log(log_, LogLevel::warn, "metrics: {}", error.what());
    failed_ = true;
  }
  written_ = std::chrono::steady_clock::now();
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
      if (traffic_.bytes_sent[level] == 0 && traffic_.bytes_received[level] == 0) continue;
      const std::string_view name = level_name(static_cast<Level>(level));
      bytes.line(fmt::format("level=\"{}\",direction=\"sent\"", name), static_cast<double>(traffic_.bytes_sent[level]));
      bytes.line(fmt::format("level=\"{}\",direction=\"received\"", name), static_cast<double>(traffic_.bytes_received[level]));
    }
  }
  {
    Family seconds(all, labels_, "weir_stage_seconds_total", "counter", "Seconds in a stage of runs, stages within it included.");
    for (const auto& [stage, spent] : seconds_) seconds.line(fmt::format("stage=\"{}\"", stage), spent);
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

}  // namespace weir
