// communicator.hpp: what ranks share: transport, engine, topology, settings.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "async/channel.hpp"
#include "async/engine.hpp"
#include "base/settings.hpp"
#include "model/lookup.hpp"
#include "topology/topology.hpp"
#include "transport/transport.hpp"

namespace weir::detail {

class NcclGroups;

struct CommunicatorState {
  CommunicatorState(std::unique_ptr<Transport> transport_of_this_rank, Settings settings_in_force);

  /// Runs a control task to its end. Collective when the task is.
  void run_blocking(const char* name, int tag, task<void> (*body)(Channel, void*), void* argument);
  /// Collective when called first: what cost functions take this machine for. The same on every rank.
  const FoundMachine& agreed_machine();
  /// A tag for one more plan. Plans are made in the same order on all ranks, so all ranks get the same.
  int next_tag();

  Settings settings;
  std::unique_ptr<Transport> transport;
  Engine engine;
  Topology topology;
  DevicePath device_path;  ///< agreed: the same on every rank
  std::optional<FoundMachine> machine;
  std::shared_ptr<NcclGroups> nccl;  ///< once a plan has asked for it, see nccl_groups.hpp
  /// A plan hands GPU memory to MPI, or did: NCCL must not come beside it. The same on every rank.
  bool gpu_memory_goes_to_mpi = false;
  int plans_made = 0;
};

/// Collective. Places default to this process's own (`locate`). A rank whose settings make no sense is reported by all ranks.
[[nodiscard]] std::shared_ptr<CommunicatorState> make_communicator(std::unique_ptr<Transport> transport,
                                                                   std::optional<Location> location = {},
                                                                   std::optional<Settings> settings = {});

/// Collective. Every rank's `bytes` bytes in rank order.
void allgather_blocking(CommunicatorState& comm, int tag, const char* name, const std::byte* mine, std::int64_t bytes,
                        std::byte* all);

}  // namespace weir::detail
