#include "base/settings.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/fields.hpp"
#include "base/nearest.hpp"

namespace weir {
namespace {

constexpr std::string_view prefix = "WEIR_";
constexpr auto log_names = names_of<LogLevel>;
constexpr std::array<std::string_view, 3> cuda_aware_names = {"auto", "on", "off"};
constexpr std::array<std::string_view, 3> read_ahead_names = {"auto", "on", "off"};
constexpr std::array<std::string_view, 3> progress_thread_names = {"off", "on", "anywhere"};

void set_timeout(Settings& settings, std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds > 0) || seconds > 1e9) {
    fail(WEIR_ERR_SETTING, "WEIR_TIMEOUT is '{}': it must be a number of seconds above 0, for example 300", text);
  }
  settings.timeout_seconds = seconds;
}

/// Sets `choice` to the enumerator that `text` names.
template <class Enum, class Names>
void choose(const char* variable, std::string_view text, const Names& names, Enum& choice) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) fail(WEIR_ERR_SETTING, "{} is '{}': it must be one of {}", variable, text, fmt::join(names, ", "));
  choice = static_cast<Enum>(found - names.begin());
}

void set_log(Settings& settings, std::string_view text) { choose("WEIR_LOG", text, log_names, settings.log); }
void set_gpu_pointers(Settings& settings, std::string_view text) {
  choose("WEIR_CUDA_AWARE_MPI", text, cuda_aware_names, settings.gpu_pointers);
}
void set_progress_thread(Settings& settings, std::string_view text) {
  choose("WEIR_PROGRESS_THREAD", text, progress_thread_names, settings.progress_thread);
}
void set_read_ahead(Settings& settings, std::string_view text) {
  choose("WEIR_READ_AHEAD", text, read_ahead_names, settings.read_ahead);
}

void set_shared_memory(Settings& settings, std::string_view text) {
  if (text != "0" && text != "1") fail(WEIR_ERR_SETTING, "WEIR_SHARED_MEMORY is '{}': it must be 0 or 1", text);
  settings.shared_memory = text == "1";
}

void set_machine(Settings& settings, std::string_view text) {
  if (text.empty()) fail(WEIR_ERR_SETTING, "WEIR_MACHINE is '': it must name a file that `weir calibrate` has written");
  settings.machine = text;
}

void set_calibrate(Settings& settings, std::string_view text) {
  if (text != "0" && text != "1") fail(WEIR_ERR_SETTING, "WEIR_CALIBRATE is '{}': it must be 0 or 1", text);
  settings.calibrate = text == "1";
}

void set_threads(Settings& settings, std::string_view text) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), settings.threads);
  if (error != std::errc{} || end != text.data() + text.size() || settings.threads < 0 || settings.threads > 1024)
    fail(WEIR_ERR_SETTING, "WEIR_THREADS is '{}': it must be a number of threads up to 1024, or 0, by the cores of a rank", text);
}

void set_ports(Settings& settings, std::string_view text) {
  const std::size_t dash = std::min(text.find('-'), text.size());
  const std::string_view first = text.substr(0, dash), last = dash < text.size() ? text.substr(dash + 1) : first;
  const auto read = [](std::string_view part, int& port) {
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), port);
    return error == std::errc{} && end == part.data() + part.size() && port >= 1 && port <= 65535;
  };
  if (!read(first, settings.ports.first) || !read(last, settings.ports.last) || settings.ports.first > settings.ports.last)
    fail(WEIR_ERR_SETTING, "WEIR_PORTS is '{}': it must be a port from 1 to 65535, or a range such as 29600-29615", text);
}
std::string show_ports(const Settings& settings) {
  const auto [first, last] = settings.ports;
  if (first == 0) return "";
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

void set_connections(Settings& settings, std::string_view text) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), settings.connections);
  if (error != std::errc{} || end != text.data() + text.size() || settings.connections < 1 || settings.connections > 16)
    fail(WEIR_ERR_SETTING, "WEIR_CONNECTIONS is '{}': it must be a number of connections from 1 to 16", text);
}
void set_interface(Settings& settings, std::string_view text) { settings.network_interface = text; }
void set_trace(Settings& settings, std::string_view text) { settings.trace = text; }
void set_dump(Settings& settings, std::string_view text) { settings.dump = text; }
void set_metrics(Settings& settings, std::string_view text) { settings.metrics = text; }

struct Signal {
  std::string_view name;
  int number;
};
/// The signals that may be chosen. They do not end the program once they are counted.
constexpr std::array signals = {Signal{"USR1", SIGUSR1}, Signal{"USR2", SIGUSR2}, Signal{"QUIT", SIGQUIT}, Signal{"HUP", SIGHUP}};

void set_dump_signal(Settings& settings, std::string_view text) {
  if (text.empty()) {
    settings.dump_signal = 0;
    return;
  }
  for (const Signal& signal : signals) {
    if (text == signal.name) {
      settings.dump_signal = signal.number;
      return;
    }
  }
  fail(WEIR_ERR_SETTING, "WEIR_DUMP_SIGNAL is '{}': it must be one of USR1, USR2, QUIT, HUP", text);
}

std::string show_dump_signal(const Settings& settings) {
  for (const Signal& signal : signals) {
    if (settings.dump_signal == signal.number) return std::string(signal.name);
  }
  return "";
}

struct Row {
  const char* name;
  const char* description;
  void (*set)(Settings&, std::string_view);
  std::string (*show)(const Settings&);
};

constexpr std::array rows = {
    Row{"WEIR_TIMEOUT", "seconds without progress after which a run ends with WEIR_ERR_TIMEOUT", set_timeout,
        [](const Settings& s) { return fmt::format("{}", s.timeout_seconds); }},
    Row{"WEIR_LOG", "what is written to stderr: error, warn, info or debug", set_log,
        [](const Settings& s) { return std::string(log_names[static_cast<std::size_t>(s.log)]); }},
    Row{"WEIR_SHARED_MEMORY",
        "1: ranks of a node exchange through shared memory (/dev/shm); 0, on any rank: by messages", set_shared_memory,
        [](const Settings& s) { return std::string(s.shared_memory ? "1" : "0"); }},
    Row{"WEIR_MACHINE",
        "machine file for predictions and automatic choice, read by rank 0; else the host's own, else built-in figures",
        set_machine, [](const Settings& s) { return s.machine; }},
    Row{"WEIR_CALIBRATE", "1: measure the machine for a second or two instead of reading a file", set_calibrate,
        [](const Settings& s) { return std::string(s.calibrate ? "1" : "0"); }},
    Row{"WEIR_CUDA_AWARE_MPI",
        "on: messages of CUDA memory go to MPI as they are; off: through pinned host memory; auto: as the library says",
        set_gpu_pointers,
        [](const Settings& s) { return std::string(cuda_aware_names[static_cast<std::size_t>(s.gpu_pointers)]); }},
    Row{"WEIR_PROGRESS_THREAD",
        "on: a thread advances what is in flight while the program computes, where a core is free for it; anywhere: on any core; "
        "off: only Weir's calls do",
        set_progress_thread,
        [](const Settings& s) { return std::string(progress_thread_names[static_cast<std::size_t>(s.progress_thread)]); }},
    Row{"WEIR_THREADS",
        "threads of a rank that select, merge, apply, encode and decode, and work on rows of tables, unless a plan says its own; "
        "0: the cores it has for itself",
        set_threads, [](const Settings& s) { return fmt::format("{}", s.threads); }},
    Row{"WEIR_READ_AHEAD",
        "on: selection fetches memory ahead of its loads, which is faster on some processors and slower on others; off: it does "
        "not; auto: the first large selections find out",
        set_read_ahead, [](const Settings& s) { return std::string(read_ahead_names[static_cast<std::size_t>(s.read_ahead)]); }},
    Row{"WEIR_TRACE", "folder for traces, one file a rank, for Perfetto, chrome://tracing and `weir trace`; empty: none", set_trace,
        [](const Settings& s) { return s.trace; }},
    Row{"WEIR_DUMP",
        "folder for dumps of the flight recorder after a timeout or another break, for `weir trace diagnose`; empty: none",
        set_dump, [](const Settings& s) { return s.dump; }},
    Row{"WEIR_DUMP_SIGNAL", "signal that makes a rank write such a dump and go on: USR1, USR2, QUIT or HUP; empty: none",
        set_dump_signal, show_dump_signal},
    Row{"WEIR_METRICS", "folder for metrics, one file a rank, in the Prometheus text format; empty: none", set_metrics,
        [](const Settings& s) { return s.metrics; }},
    Row{"WEIR_PORTS",
        "port, or range of ports, on one of which rank 0 waits for the others if no launcher of MPI started them; empty: the 16 "
        "after "
        "MASTER_PORT",
        set_ports, show_ports},
    Row{"WEIR_INTERFACE",
        "network interface for messages over TCP if no launcher of MPI started the ranks; empty: the one to rank 0", set_interface,
        [](const Settings& s) { return s.network_interface; }},
    Row{"WEIR_CONNECTIONS", "connections between two ranks, among which large messages are divided; that of rank 0 counts",
        set_connections, [](const Settings& s) { return fmt::format("{}", s.connections); }},
};

/// Returns the environment variables that begin with WEIR_ and are not settings of Weir, with their values.
std::vector<std::pair<std::string_view, std::string_view>> unknown_variables() {
  std::vector<std::pair<std::string_view, std::string_view>> list;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with(prefix)) continue;
    if (std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return name == row.name; })) continue;
    list.emplace_back(name, text.substr(std::min(text.size(), name.size() + 1)));
  }
  return list;
}

/// Returns whether `name` is a longer name for the setting, such as WEIR_LOG_LEVEL, or at most a third of its letters are wrong.
bool is_misspelling(std::string_view name, std::string_view setting) {
  const std::size_t letters = setting.size() - prefix.size();
  return (name.starts_with(setting) && name[setting.size()] == '_') || edit_distance(name, setting) <= letters / 3;
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.dump = default_dump_folder;
  for (const Row& row : rows) {
    if (const char* value = std::getenv(row.name)) row.set(settings, value);
  }
  return settings;
}

std::vector<std::string> misspelt_settings() {
  std::vector<std::string_view> names;
  for (const Row& row : rows) names.emplace_back(row.name);
  std::vector<std::string> texts;
  for (const auto& [name, value] : unknown_variables()) {
    const std::string_view meant = nearest(name, names);
    const auto longer =
        std::find_if(names.begin(), names.end(), [&name = name](std::string_view n) { return name.starts_with(n); });
    const std::string_view setting = longer != names.end() && !is_misspelling(name, meant) ? *longer : meant;
    if (is_misspelling(name, setting))
      texts.push_back(fmt::format("{} is not a setting of Weir and is ignored: did you mean {}?", name, setting));
  }
  return texts;
}

std::vector<SettingInfo> settings() {
  const Settings in_force = read_settings();
  std::vector<SettingInfo> list;
  for (const Row& row : rows) {
    list.push_back({row.name, row.show(in_force), std::getenv(row.name) ? "environment" : "default", row.description});
  }
  for (const auto& [name, value] : unknown_variables())
    list.push_back({std::string(name), std::string(value), "environment", "not a setting of Weir: ignored"});
  return list;
}

}  // namespace weir
