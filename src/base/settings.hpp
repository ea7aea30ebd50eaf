// settings.hpp: every WEIR_* environment variable, in one table. Read once per communicator.
#pragma once

#include <string>
#include <vector>
#include <weir/weir.hpp>

namespace weir {

/// Whether messages of CUDA memory are given to MPI as they are. `automatic`: if the library says that it accepts them.
enum class GpuPointers { automatic, on, off };

/// Whether a thread of the library advances what is in flight while the caller computes. `on`: on a core of its own, if there is
/// one. `anywhere`: where the system puts it.
enum class ProgressThreadSetting { off, on, anywhere };

/// Whether selection prefetches memory. `automatic`: as measured.
enum class ReadAheadSetting { automatic, on, off };

/// Ports from `first` to `last`; first 0: not set.
struct PortRange {
  int first = 0, last = 0;
};

struct Settings {
  double timeout_seconds = 300;                       ///< WEIR_TIMEOUT
  LogLevel log = LogLevel::warn;                      ///< WEIR_LOG
  bool shared_memory = true;                          ///< WEIR_SHARED_MEMORY
  std::string machine{};                              ///< WEIR_MACHINE, empty: not set
  bool calibrate = false;                             ///< WEIR_CALIBRATE
  GpuPointers gpu_pointers = GpuPointers::automatic;  ///< WEIR_CUDA_AWARE_MPI
  std::string trace{};                                ///< WEIR_TRACE, a folder; empty: off
  std::string dump{};                                 ///< WEIR_DUMP, a folder, default_dump_folder unless set; empty: off
  int dump_signal = 0;                                ///< WEIR_DUMP_SIGNAL; 0: no signal
  std::string metrics{};                              ///< WEIR_METRICS, a folder; empty: off
  ProgressThreadSetting progress_thread = ProgressThreadSetting::off;  ///< WEIR_PROGRESS_THREAD
  int threads = 0;                                                     ///< WEIR_THREADS, of a rank; 0: by its cores
  ReadAheadSetting read_ahead = ReadAheadSetting::automatic;           ///< WEIR_READ_AHEAD, of the process
  PortRange ports{};                                                   ///< WEIR_PORTS
  std::string network_interface{};                                     ///< WEIR_INTERFACE, empty: not set
  int connections = 1;                                                 ///< WEIR_CONNECTIONS, between two ranks
};

inline constexpr const char* default_dump_folder = "weir-dump";

/// Reads the environment. Throws Error(WEIR_ERR_SETTING) naming the variable, its value and what would be right.
[[nodiscard]] Settings read_settings();

/// Returns a text for each WEIR_* environment variable that is not a setting but looks like one.
[[nodiscard]] std::vector<std::string> misspelt_settings();

}  // namespace weir
