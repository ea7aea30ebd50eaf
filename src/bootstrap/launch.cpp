#include "bootstrap/launch.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "base/error.hpp"
#include "base/settings.hpp"

namespace weir::bootstrap {
namespace {

constexpr int ports_tried = 16;
constexpr int most_processes = 1 << 20;

std::optional<std::string_view> variable(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

/// Returns the number that the variable has. Throws if it has none from `least` to `most`.
int number(const char* name, int least, int most) {
  const std::optional<std::string_view> text = variable(name);
  if (!text) {
    fail(WEIR_ERR_SETTING,
         "WORLD_SIZE says that this is one of {} processes, and {} is not set: start the program with torchrun, mpirun or srun, or "
         "set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",
         *variable("WORLD_SIZE"), name);
  }
  int value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < least || value > most)
    fail(WEIR_ERR_SETTING, "{} is '{}': it must be a number from {} to {}", name, *text, least, most);
  return value;
}

/// The variables that launchers of MPI leave for MPI to find.
constexpr std::array of_launchers = {"PMI_FD",           "PMI_PORT",         "PMI_RANK",         "PMI_SIZE",
                                     "PMIX_RANK",        "PMIX_NAMESPACE",   "PMI_ID",           "PMI_SPAWNED",
                                     "PMIX_SERVER_URI2", "PMIX_SERVER_URI3", "PMIX_SERVER_URI4", "OMPI_COMM_WORLD_SIZE"};

constexpr const char* started_by = "_WEIR_STARTED_BY";  // the process that has started MPI with these variables

Launch by_variables(int size) {
  if (const auto process = variable(started_by); process && *process != std::to_string(getpid())) {
    fail(WEIR_ERR_SETTING,
         "process {}, a rank, has started this process, which has its RANK and WORLD_SIZE: remove WORLD_SIZE from the environment "
         "of "
         "programs that ranks start",
         *process);
  }
  Launch launch{.starter = Starter::variables, .found = "RANK, WORLD_SIZE, MASTER_ADDR", .size = size};
  launch.rank = number("RANK", 0, size - 1);
  launch.one_node = variable("LOCAL_WORLD_SIZE") == variable("WORLD_SIZE");
  if (!variable("MASTER_ADDR")) {
    fail(WEIR_ERR_SETTING,
         "RANK and WORLD_SIZE say that this is rank {} of {}, and MASTER_ADDR is not set: it must be an address of rank 0's node, "
         "as all nodes reach it",
         launch.rank, size);
  }
  launch.master_address = *variable("MASTER_ADDR");
  const int master_port = number("MASTER_PORT", 1, 65535);
  const PortRange ports = read_settings().ports;
  launch.first_port = ports.first != 0 ? ports.first : std::min(master_port + 1, 65535);
  launch.last_port = ports.first != 0 ? ports.last : std::min(master_port + ports_tried, 65535);
  // Not torchrun's count of restarts, which differs between nodes.
  launch.job = fmt::format("{}.{}", variable("TORCHELASTIC_RUN_ID").value_or("job"), master_port);
  std::replace_if(
      launch.job.begin(), launch.job.end(), [](unsigned char c) { return c <= ' ' || c > '~'; }, '_');
  launch.job.resize(std::min<std::size_t>(launch.job.size(), 200));
  return launch;
}

}  // namespace

Launch read_launch() {
  if (!variable("TORCHELASTIC_RUN_ID")) {
    const auto set = std::find_if(of_launchers.begin(), of_launchers.end(), variable);
    if (set != of_launchers.end()) return {.starter = Starter::launcher, .found = *set};
  }
  const int size = variable("WORLD_SIZE") ? number("WORLD_SIZE", 1, most_processes) : 1;
  return size > 1 ? by_variables(size) : Launch{.within = variable("TORCHELASTIC_RUN_ID").has_value()};
}

void note_started() { setenv(started_by, std::to_string(getpid()).c_str(), 1); }

void forget_launchers() {
  for (const char* name : of_launchers) unsetenv(name);
}

std::string describe(const Launch& launch) {
  switch (launch.starter) {
    case Starter::launcher:
      return fmt::format("by a launcher of MPI, which has set {}", launch.found);
    case Starter::variables:
      return fmt::format("by Weir, as {} say: rank {} of {}, rank 0 at {}, ports {} to {}", launch.found, launch.rank, launch.size,
                         launch.master_address, launch.first_port, launch.last_port);
    case Starter::alone:
      return "alone: neither a launcher of MPI nor WORLD_SIZE is in the environment";
  }
  return "";
}

}  // namespace weir::bootstrap
