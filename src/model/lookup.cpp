#include "model/lookup.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"

namespace weir {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
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
  return {builtin_machine(), std::string(builtin_origin)};
}

}  // namespace weir
