#include <cstdlib>

#include "base/settings.hpp"
#include "support/catch.hpp"

namespace weir::test {

TEST_CASE("settings come from the environment, nonsense is named") {
  unsetenv("WEIR_TIMEOUT");
  REQUIRE(read_settings().timeout_seconds == 300);
  setenv("WEIR_TIMEOUT", "1.5", 1);
  REQUIRE(read_settings().timeout_seconds == 1.5);
  for (const char* nonsense : {"", "soon", "-1", "0", "10s", "1e99"}) {
    setenv("WEIR_TIMEOUT", nonsense, 1);
    REQUIRE_THROWS_WITH(read_settings(),
                        ContainsSubstring("WEIR_TIMEOUT is '" + std::string(nonsense) + "': it must be a number of seconds"));
  }
  unsetenv("WEIR_TIMEOUT");
  setenv("WEIR_LOG", "loud", 1);
  REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("must be one of error, warn, info, debug"));
  setenv("WEIR_LOG", "debug", 1);
  REQUIRE(read_settings().log == LogLevel::debug);
  REQUIRE(read_settings().machine.empty());
  setenv("WEIR_MACHINE", "", 1);
  REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_MACHINE is '': it must name a file"));
  setenv("WEIR_MACHINE", "m.json", 1);
  REQUIRE(read_settings().machine == "m.json");
  REQUIRE_FALSE(read_settings().calibrate);
  setenv("WEIR_CALIBRATE", "yes", 1);
  REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_CALIBRATE is 'yes': it must be 0 or 1"));
  setenv("WEIR_CALIBRATE", "1", 1);
  REQUIRE(read_settings().calibrate);
  setenv("WEIR_CUDA_AWARE_MPI", "1", 1);
  REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_CUDA_AWARE_MPI is '1': it must be one of auto, on, off"));
  setenv("WEIR_CUDA_AWARE_MPI", "off", 1);
  REQUIRE(read_settings().gpu_pointers == GpuPointers::off);
  REQUIRE(read_settings().progress_thread == ProgressThreadSetting::off);
  setenv("WEIR_PROGRESS_THREAD", "1", 1);
  REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_PROGRESS_THREAD is '1': it must be one of off, on, anywhere"));
  setenv("WEIR_PROGRESS_THREAD", "anywhere", 1);
  REQUIRE(read_settings().progress_thread == ProgressThreadSetting::anywhere);
  REQUIRE(read_settings().threads == 0);
  for (const char* nonsense : {"", "two", "-1", "1025", "2x", "99999999999"}) {
    setenv("WEIR_THREADS", nonsense, 1);
    REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_THREADS is '" + std::string(nonsense) +
                                                           "': it must be a number of threads up to 1024"));
  }
  setenv("WEIR_THREADS", "0", 1);
  setenv("WEIR_READ_AHEAD", "maybe", 1);
  REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_READ_AHEAD is 'maybe': it must be one of auto, on, off"));
  setenv("WEIR_READ_AHEAD", "off", 1);
  REQUIRE(read_settings().read_ahead == ReadAheadSetting::off);
  unsetenv("WEIR_READ_AHEAD");
  REQUIRE(read_settings().read_ahead == ReadAheadSetting::automatic);
  setenv("WEIR_THREADS", "3", 1);
  REQUIRE(read_settings().threads == 3);
  unsetenv("WEIR_THREADS");
  REQUIRE(read_settings().ports.first == 0);
  for (const char* nonsense : {"", "many", "0", "65536", "5-", "-5", "6-5", "1-2-3"}) {
    setenv("WEIR_PORTS", nonsense, 1);
    REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_PORTS is '" + std::string(nonsense) + "': it must be a port"));
  }
  setenv("WEIR_PORTS", "29600-29615", 1);
  REQUIRE(read_settings().ports.first == 29600);
  REQUIRE(read_settings().ports.last == 29615);
  setenv("WEIR_PORTS", "29600", 1);
  REQUIRE(read_settings().ports.last == 29600);
  unsetenv("WEIR_PORTS");
  setenv("WEIR_INTERFACE", "eth1", 1);
  REQUIRE(read_settings().network_interface == "eth1");
  unsetenv("WEIR_INTERFACE");
  REQUIRE(read_settings().connections == 1);
  for (const char* nonsense : {"", "many", "0", "17", "-1", "2x"}) {
    setenv("WEIR_CONNECTIONS", nonsense, 1);
    REQUIRE_THROWS_WITH(read_settings(), ContainsSubstring("WEIR_CONNECTIONS is '" + std::string(nonsense) + "': it must be"));
  }
  setenv("WEIR_CONNECTIONS", "4", 1);
  REQUIRE(read_settings().connections == 4);
  unsetenv("WEIR_CONNECTIONS");
  setenv("WEIR_DUMP_SIGNAL", "", 1);
  REQUIRE(read_settings().dump_signal == 0);
  unsetenv("WEIR_DUMP_SIGNAL");
  setenv("WEIR_NO_SUCH_THING", "1", 1);
  bool told = false;
  for (const SettingInfo& setting : settings()) {
    if (setting.name == "WEIR_LOG") REQUIRE((setting.value == "debug" && setting.origin == "environment"));
    if (setting.name == "WEIR_NO_SUCH_THING") told = true;
  }
  REQUIRE(told);
  REQUIRE(misspelt_settings().empty());  // it resembles none of Weir's settings
  for (const auto& [typo, meant] : {std::pair{"WEIR_TIMOUT", "WEIR_TIMEOUT"},
                                    {"WEIR_LOGS", "WEIR_LOG"},
                                    {"WEIR_LOG_LEVEL", "WEIR_LOG"},
                                    {"WEIR_SHAREDMEMORY", "WEIR_SHARED_MEMORY"},
                                    {"WEIR_DUMPSIGNAL", "WEIR_DUMP_SIGNAL"},
                                    {"WEIR_DUMP_SIGNL", "WEIR_DUMP_SIGNAL"},
                                    {"WEIR_MACHINE_FILE", "WEIR_MACHINE"}}) {
    setenv(typo, "1", 1);
    const std::vector<std::string> texts = misspelt_settings();
    REQUIRE(texts.size() == 1);
    REQUIRE(texts[0] == std::string(typo) + " is not a setting of Weir and is ignored: did you mean " + meant + "?");
    unsetenv(typo);
  }
  for (const char* foreign :
       {"WEIR_ROOT", "WEIR_DIR", "WEIR_HOME", "WEIR_CLUSTER_STATE", "WEIR_"}) {  // of modules, build systems, tests
    setenv(foreign, "1", 1);
    INFO(foreign);
    REQUIRE(misspelt_settings().empty());
    unsetenv(foreign);
  }
  for (const char* name : {"WEIR_LOG", "WEIR_MACHINE", "WEIR_CALIBRATE", "WEIR_CUDA_AWARE_MPI", "WEIR_PROGRESS_THREAD"})
    unsetenv(name);
  unsetenv("WEIR_NO_SUCH_THING");
}

}  // namespace weir::test
