#include "model/lookup.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "collectives/control.hpp"
#include "model/calibrate.hpp"

namespace weir {
namespace {

constexpr double quick_seconds = 1.5;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// What rank 0 decided.
struct Verdict {
  std::uint64_t status = WEIR_OK;
  std::uint64_t calibrate = 0;
  std::string origin, text;  ///< the machine file's text, or the error's
};

Verdict decide(const Settings& settings) {
  Verdict verdict;
  verdict.calibrate = settings.calibrate ? 1 : 0;
  if (settings.calibrate) return verdict;
  try {
    FoundMachine found = find_machine(settings);
    verdict.origin = std::move(found.origin);
    verdict.text = format_machine(found.machine);
  } catch (const Error& error) {
    verdict.status = static_cast<std::uint64_t>(error.status());
    verdict.text = error.what();
  }
  return verdict;
}

/// `text` becomes rank 0's. Its size is known to all: the others' texts are of that size.
task<void> broadcast(Channel channel, std::string& text) {
  if (text.empty()) co_return;
  std::vector<std::uint64_t> words((text.size() + 7) / 8), scratch(words.size());
  if (channel.rank() == 0) std::memcpy(words.data(), text.data(), text.size());
  // The others give zeros to the sum.
  co_await allreduce_control(channel, words.data(), static_cast<std::int64_t>(words.size()), 0, scratch.data());
  std::memcpy(text.data(), words.data(), text.size());
}

}  // namespace

std::string own_machine_file() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) return "";
  std::string folder = environment("XDG_CONFIG_HOME");
  if (folder.empty()) {
    folder = environment("HOME");
    if (folder.empty()) return "";
    folder += "/.config";
  }
  return fmt::format("{}/weir/machines/{}.json", folder, host.data());
}

FoundMachine find_machine(const Settings& settings) {
  if (!settings.machine.empty()) return {read_machine(settings.machine), settings.machine};
  const std::string own = own_machine_file();
  std::error_code ignored;
  if (!own.empty() && std::filesystem::exists(own, ignored)) return {read_machine(own), own};
  return {builtin_machine(), "built in"};
}

task<FoundMachine> agree_on_machine(Channel channel, const Settings& settings) {
  Verdict verdict;
  if (channel.rank() == 0) verdict = decide(settings);
  std::array<std::uint64_t, 4> words{}, scratch{};
  words[0] = verdict.status;
  words[1] = verdict.calibrate;
  words[2] = verdict.origin.size();
  words[3] = verdict.text.size();
  co_await allreduce_control(channel, words.data(), 4, 4, scratch.data());
  FoundMachine found;
  if (words[1] != 0) {
    found.machine = co_await calibrate(channel, quick_seconds, nullptr);
    found.origin = "measured";
    co_return found;
  }
  verdict.origin.resize(words[2]);
  verdict.text.resize(words[3]);
  co_await broadcast(channel, verdict.origin);
  co_await broadcast(channel, verdict.text);
  if (words[0] != WEIR_OK) throw Error(static_cast<weir_status>(words[0]), verdict.text);
  found.machine = parse_machine(verdict.text, verdict.origin);
  found.origin = verdict.origin;
  co_return found;
}

}  // namespace weir
