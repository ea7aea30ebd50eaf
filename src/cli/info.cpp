// weir info: versions, build options, topology, transports, settings.
#include <fmt/format.h>
#include <hwloc.h>
#include <weir/mpi.h>

#include "cli/build_info.hpp"
#include "cli/commands.hpp"
#include "kernels/kernels.hpp"
#include "plan/communicator.hpp"

namespace weir::cli {
namespace {

void run() {
  MPI_Init(nullptr, nullptr);
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.rank() != 0) return;
  const Version v = version();
  const unsigned hwloc_version = hwloc_get_api_version();
  fmt::print("weir {}.{}.{}\n", v.major, v.minor, v.patch);
  fmt::print("\nbuild\n");
  fmt::print("  type          {}\n", build_type);
  fmt::print("  compiler      {}\n", build_compiler);
  fmt::print("  sanitizers    {}\n", build_sanitizers[0] != '\0' ? build_sanitizers : "none");
  fmt::print("  hwloc         {}.{}.{}\n", hwloc_version >> 16, (hwloc_version >> 8) & 0xff, hwloc_version & 0xff);
  fmt::print("  kernels       {}\n", kernels::host::instruction_set());
  fmt::print("\ntransports\n");
  fmt::print("  in use        {}\n", comm.state()->transport->name());
  fmt::print("  built in      mpi, inproc\n");
  fmt::print("\nallreduce algorithms\n");
  for (const AlgorithmInfo& algorithm : algorithms()) fmt::print("  {:<20}{}\n", algorithm.name, algorithm.description);
  fmt::print("\nsettings\n");
  for (const SettingInfo& setting : settings())
    fmt::print("  {:<20}{:<12}({}) {}\n", setting.name, setting.value, setting.origin, setting.description);
  fmt::print("\ntopology: {} rank{}\n", comm.size(), comm.size() == 1 ? "" : "s");
  fmt::print("{}", comm.topology());
}

}  // namespace

void add_info(CLI::App& app) {
  app.add_subcommand("info", "Versions, build options, transports, settings and topology; with mpirun, of all ranks")
      ->callback(run);
}

}  // namespace weir::cli
