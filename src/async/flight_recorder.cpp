#include "async/flight_recorder.hpp"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/error.hpp"
#include "base/json.hpp"
#include "transport/transport.hpp"

namespace weir {
namespace {

constexpr const char* dump_version = "2.10";  // of PyTorch's format whose keys these are

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

/// Runs of one process group are matched by their numbers, and a group has one name on all ranks: tags are used again by later
/// plans, and what makes things uses one tag for everything.
std::string group_of(const CallRecord& record) { return fmt::format("{}:{}", record.tag, record.name.data()); }

/// PyTorch's analyser knows NCCL's collectives only. Of an all-to-all it expects no equal counts.
const char* pytorch_collective(const CallRecord& record) {
  if (record.tag == setup_tag) return "nccl:all_gather";
  return record.what[0] != 0 ? "nccl:all_reduce" : "nccl:all_to_all";
}

/// Steady times as nanoseconds since 1970.
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
                     {"stage", stage_name(record.stage)},
                     {"status", status_name(record.status)},
                     {"bytes_sent", record.bytes_sent},
                     {"bytes_received", record.bytes_received},
                     {"awaited_rank", record.awaited_rank},
                     {"awaited_ms", record.awaited_seconds * 1e3}});
  return entry;
}

}  // namespace

std::string FlightRecorder::to_json(const Identity& identity, std::string_view why, std::string_view in_flight,
                                    double timeout_seconds) const {
  const WallClock clock;
  std::string ranks = "[0";
  for (int rank = 1; rank < identity.ranks; ++rank) ranks += fmt::format(", {}", rank);
  ranks += ']';
  const Version weir = version();
  JsonValue dump;
  dump.set("version", dump_version);
  dump.set("weir", {{"version", fmt::format("{}.{}.{}", weir.major, weir.minor, weir.patch)},
                    {"run", fmt::format("{:016x}", identity.run)},
                    {"communicator", identity.communicator},
                    {"rank", identity.rank},
                    {"ranks", identity.ranks},
                    {"host", identity.host},
                    {"unix_ns", clock.now()},
                    {"why", why},
                    {"in_flight", in_flight},
                    {"calls", calls_}});
  dump.set("rank", identity.rank);
  JsonValue config = JsonValue::object(), status = JsonValue::object(), entries = JsonValue::array();
  std::map<std::string, JsonValue> status_of;
  for (std::int64_t i = 0; i < kept(); ++i) {
    const CallRecord& record = at(i);
    const std::string group = group_of(record);
    config.set(group, {{"name", group}, {"desc", record.name.data()}, {"ranks", ranks}});
    JsonValue& last = status_of[group];
    last.set("last_enqueued_collective", record.number);
    if (record.state != CallState::created) last.set("last_started_collective", record.number);
    if (record.state == CallState::completed) last.set("last_completed_collective", record.number);
    entries.push_back(entry_of(record, clock, timeout_seconds));
  }
  for (const auto& [group, unused] : config.view().members()) status.set(group, std::move(status_of[group]));
  dump.set("pg_config", std::move(config));
  dump.set("pg_status", std::move(status));
  dump.set("entries", std::move(entries));
  return dump.text() + '\n';
}

namespace {
std::atomic<int> signals_counted{0};
}

void count_signal(int signal) {
  struct sigaction action {};
  action.sa_handler = [](int) { signals_counted.fetch_add(1, std::memory_order_relaxed); };
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

int signals_so_far() noexcept { return signals_counted.load(std::memory_order_relaxed); }

void write_whole_file(const std::string& path, std::string_view text) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  // A device, a pipe or a link stays what it is; a file is whole at any moment.
  const auto kind = std::filesystem::symlink_status(path, ignored).type();
  const bool replaces = kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::not_found;
  const std::string beside = replaces ? fmt::format("{}.{}.tmp", path, ::getpid()) : path;
  std::FILE* file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) fail(WEIR_ERR_ARGUMENT, "{} cannot be written: {}", path, std::strerror(errno));
  bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  written = std::fclose(file) == 0 && written;
  if (written && (!replaces || std::rename(beside.c_str(), path.c_str()) == 0)) return;
  const int reason = errno;
  if (replaces) std::remove(beside.c_str());
  fail(WEIR_ERR_ARGUMENT, "{} cannot be written: {}", path, std::strerror(reason));
}

}  // namespace weir
