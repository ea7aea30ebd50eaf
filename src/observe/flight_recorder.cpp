#include "observe/flight_recorder.hpp"

#include <map>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/log.hpp"
#include "base/origin.hpp"
#include "base/whole_file.hpp"

namespace weir {
namespace {

constexpr const char* dump_version = "2.10";  // of PyTorch's format, whose keys these are

const char* state_of(CallState state) {
  switch (state) {
    case CallState::created:
      return "scheduled";
    case CallState::completed:
      return "completed";
    default:
      return "started";
  }
}

const char* status_name(weir_status status) {
  switch (status) {
#define WEIR_STATUS_NAME(name, value, text) \
  case WEIR_##name:                         \
    return "WEIR_" #name;
    WEIR_STATUS_LIST(WEIR_STATUS_NAME)
#undef WEIR_STATUS_NAME
  }
  return "";
}

const char* pytorch_type(std::string_view element) {
  if (element == "float64") return "Double";
  if (element == "float16") return "Half";
  if (element == "bfloat16") return "BFloat16";
  return "Float";
}

/// Returns the process group of a record. The analyser matches runs of one group by their numbers, and a group has one name on all
/// ranks. The name is part of it because later plans reuse tags, and all setup runs have one tag.
std::string group_of(const CallRecord& record) { return fmt::format("{}:{}", record.tag, record.name.data()); }

/// Returns a name of NCCL's: PyTorch's analyser knows no others. It does not expect equal counts of an all-to-all.
const char* pytorch_collective(const CallRecord& record) {
  if (record.call == 0) return "nccl:all_gather";
  return record.what[0] != 0 ? "nccl:all_reduce" : "nccl:all_to_all";
}

/// Converts times of the steady clock to nanoseconds since 1970.
class WallClock {
 public:
  [[nodiscard]] std::int64_t now() const { return nanoseconds(wall_.time_since_epoch()); }
  [[nodiscard]] JsonValue at(CallRecord::Time time) const {
    if (time == CallRecord::Time{}) return {};
    return nanoseconds(wall_.time_since_epoch() + (time - steady_));
  }

 private:
  CallRecord::Time steady_ = std::chrono::steady_clock::now();
  template <class Duration>
  static std::int64_t nanoseconds(Duration time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  }

  std::chrono::system_clock::time_point wall_ = std::chrono::system_clock::now();
};

JsonValue entry_of(const CallRecord& record, const WallClock& clock, double timeout_seconds) {
  const JsonValue sizes = JsonValue::array({JsonValue::array({record.count})});
  const JsonValue types = JsonValue::array({pytorch_type(record.element.data())});
  JsonValue entry;
  entry.set("record_id", record.id - 1);
  entry.set("pg_id", record.tag);
  entry.set("process_group", JsonValue::array({group_of(record), record.name.data()}));
  entry.set("collective_seq_id", record.number);
  entry.set("p2p_seq_id", 0);
  entry.set("op_id", record.id);
  entry.set("profiling_name", pytorch_collective(record));
  entry.set("time_created_ns", clock.at(record.created));
  if (record.finished != CallRecord::Time{})
    entry.set("duration_ms", std::chrono::duration<double, std::milli>(record.finished - record.created).count());
  entry.set("input_sizes", sizes);
  entry.set("input_dtypes", types);
  entry.set("output_sizes", sizes);
  entry.set("output_dtypes", types);
  entry.set("state", state_of(record.state));
  entry.set("time_discovered_started_ns", clock.at(record.started));
  entry.set("time_discovered_completed_ns", clock.at(record.finished));
  entry.set("retired", record.state == CallState::completed);
  entry.set("timeout_ms", timeout_seconds * 1e3);
  entry.set("is_p2p", false);
  entry.set("frames", JsonValue::array());
  entry.set("weir", {{"name", record.name.data()},
                     {"run", record.number},
                     {"algorithm", record.what.data()},
                     {"type", record.element.data()},
                     {"state", record.state == CallState::failed ? "failed" : state_of(record.state)},
                     {"stage", record.stage},
                     {"status", status_name(record.status)},
                     {"bytes_sent", record.bytes_sent},
                     {"bytes_received", record.bytes_received},
                     {"awaited_rank", record.awaited_rank},
                     {"awaited_ms", record.awaited_seconds * 1e3}});
  return entry;
}

void bring_up_to_date(CallRecord& record, const RunInfo& run) noexcept {
  if (run.first_message != RunInfo::Time{}) record.state = CallState::started;
  record.started = run.first_message;
  record.stage = run.stage;
  if (run.traffic != nullptr) {
    record.bytes_sent = run.traffic->sent();
    record.bytes_received = run.traffic->received();
  }
  record.awaited_rank = run.awaited_rank;
  record.awaited_seconds = run.awaited_seconds;
}

}  // namespace

void FlightRecorder::identify(const Identity& identity, const Settings& settings) {
  identity_ = identity;
  settings_ = &settings;
}

void FlightRecorder::begin(const RunInfo& run) noexcept {
  CallRecord& record = records_[static_cast<std::size_t>(runs_ % capacity)];
  runs_ = run.id;
  record = {};
  record.id = run.id;
  run.name.copy(record.name.data(), record.name.size() - 1);
  run.algorithm.copy(record.what.data(), record.what.size() - 1);
  run.element_type.copy(record.element.data(), record.element.size() - 1);
  record.tag = run.tag;
  record.call = run.call;
  record.number = run.number;
  record.count = run.count;
  record.created = run.begun;
  record.run = &run;
}

void FlightRecorder::end(const RunInfo& run) noexcept {
  CallRecord& record = records_[static_cast<std::size_t>((run.id - 1) % capacity)];
  if (record.id != run.id) return;  // a later run has its place
  bring_up_to_date(record, run);
  record.state = run.status == WEIR_OK ? CallState::completed : CallState::failed;
  record.status = run.status;
  record.finished = run.ended;
  record.run = nullptr;
}

CallRecord FlightRecorder::at(std::int64_t index) const noexcept {
  CallRecord record = records_[static_cast<std::size_t>((runs_ - kept() + index) % capacity)];
  if (record.run != nullptr) bring_up_to_date(record, *record.run);
  return record;
}

void FlightRecorder::report(std::string_view why, std::string_view in_flight) noexcept {
  const Time now = std::chrono::steady_clock::now();
  if (settings_ == nullptr || settings_->dump.empty() || (reported_ != Time{} && now - reported_ < std::chrono::seconds(1))) return;
  reported_ = now;
  try {
    write(identity_.file(settings_->dump, "weir-dump", "json"), why, in_flight);
  } catch (const std::exception& error) {
    log(settings_->log, LogLevel::warn, "rank {}: no dump: {}", identity_.rank, error.what());
  }
}

void FlightRecorder::write(const std::string& path, std::string_view why, std::string_view in_flight) const {
  require(!path.empty(), "the path of the dump is empty: it must name a file");
  write_whole_file(path, to_json(why, in_flight));
}

std::string FlightRecorder::to_json(std::string_view why, std::string_view in_flight) const {
  const WallClock clock;
  std::string ranks = "[0";
  for (int rank = 1; rank < identity_.ranks; ++rank) ranks += fmt::format(", {}", rank);
  ranks += ']';
  JsonValue dump;
  dump.set("version", dump_version);
  dump.set("weir", {{"version", version_text()},
                    {"run", fmt::format("{:016x}", identity_.run)},
                    {"communicator", identity_.communicator},
                    {"rank", identity_.rank},
                    {"ranks", identity_.ranks},
                    {"host", identity_.host},
                    {"unix_ns", clock.now()},
                    {"why", why},
                    {"in_flight", in_flight},
                    {"calls", runs_}});
  dump.set("rank", identity_.rank);
  JsonValue config = JsonValue::object(), status = JsonValue::object(), entries = JsonValue::array();
  std::map<std::string, JsonValue> status_of;
  for (std::int64_t i = 0; i < kept(); ++i) {
    const CallRecord record = at(i);
    const std::string group = group_of(record);
    config.set(group, {{"name", group}, {"desc", record.name.data()}, {"ranks", ranks}});
    JsonValue& last = status_of[group];
    last.set("last_enqueued_collective", record.number);
    if (record.state != CallState::created) last.set("last_started_collective", record.number);
    if (record.state == CallState::completed) last.set("last_completed_collective", record.number);
    entries.push_back(entry_of(record, clock, settings_ != nullptr ? settings_->timeout_seconds : 0));
  }
  for (const auto& [group, unused] : config.view().members()) status.set(group, std::move(status_of[group]));
  dump.set("pg_config", std::move(config));
  dump.set("pg_status", std::move(status));
  dump.set("entries", std::move(entries));
  return dump.text() + '\n';
}

}  // namespace weir
