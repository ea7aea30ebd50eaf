#include "bootstrap/network.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace weir::bootstrap {

namespace {

/// Returns whether the user has chosen UCX.
bool chooses_ucx() {
  const char* const netmod = std::getenv("MPIR_CVAR_CH4_NETMOD");
  if (netmod != nullptr) return std::string_view(netmod) != "ofi";
  return std::getenv("UCX_TLS") != nullptr || std::getenv("UCX_NET_DEVICES") != nullptr;
}

}  // namespace

bool has_fast_network() {
  constexpr std::array folders = {"/sys/class/infiniband", "/sys/class/cxi"};
  return std::any_of(folders.begin(), folders.end(), [](const char* folder) {
    std::error_code none;
    return std::filesystem::directory_iterator(folder, none) != std::filesystem::directory_iterator();
  });
}

std::vector<std::pair<std::string, std::string>> variables_for_tcp(std::string_view library_version, int connections) {
  // Without it, MPICH takes the provider "sockets", which does not read FI_TCP_IFACE.
  std::vector<std::pair<std::string, std::string>> variables = {{"FI_PROVIDER", "tcp"}};
  // "MPICH Device:      ch4:ucx ofi": its networks. It takes the first, and UCX is slower over TCP than libfabric.
  constexpr std::string_view title = "MPICH Device:";
  const std::size_t begin = library_version.find(title);
  if (begin == std::string_view::npos) return variables;
  const std::string_view device = library_version.substr(begin, library_version.find('\n', begin) - begin);
  if (device.find("ofi") == std::string_view::npos || chooses_ucx()) return variables;
  variables.emplace_back("MPIR_CVAR_CH4_NETMOD", "ofi");
  // Each of these interfaces has sockets of its own. MPICH 4.0 ends the process if it has been built for one.
  int major = 0, minor = 0;
  const bool known = std::sscanf(std::string(library_version).c_str(), "MPICH Version: %d.%d", &major, &minor) == 2;
  if (connections > 1 && known && std::pair(major, minor) >= std::pair(4, 1))
    variables.emplace_back("MPIR_CVAR_CH4_NUM_VCIS", std::to_string(connections));
  return variables;
}

}  // namespace weir::bootstrap
