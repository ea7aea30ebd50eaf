// settings.hpp: every WEIR_* environment variable, in one table. Read once per communicator.
#pragma once

#include <string>
#include <vector>
#include <weir/weir.hpp>

namespace weir {

enum class LogLevel { error, warn, info, debug };

struct Settings {
  double timeout_seconds = 300;   ///< WEIR_TIMEOUT
  LogLevel log = LogLevel::warn;  ///< WEIR_LOG
  bool shared_memory = true;      ///< WEIR_SHARED_MEMORY
  std::string machine{};          ///< WEIR_MACHINE, empty: not set
  bool calibrate = false;         ///< WEIR_CALIBRATE
};

/// Reads the environment. Throws Error(WEIR_ERR_SETTING) naming the variable, its value and what would be right.
[[nodiscard]] Settings read_settings();

}  // namespace weir
