#include "plan/communicator.hpp"

#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "collectives/control.hpp"
#include "cuda/runtime.hpp"
#include "topology/gpus.hpp"

namespace weir {
namespace detail {
namespace {

constexpr int setup_tag = 0;

/// What every rank tells every other when a communicator is made.
struct Introduction {
  std::int32_t status = WEIR_OK;
  std::int32_t measure = 0;      ///< the machine, now: WEIR_CALIBRATE; rank 0's word counts
  std::int32_t direct = 0;       ///< DevicePath
  std::array<char, 252> text{};  ///< what is wrong; else why messages of CUDA memory take the path they take
  Location location;
};

struct Agreement {
  const Settings& settings;
  FoundMachine found;
};

task<void> agree(Channel channel, Agreement& agreement) {
  agreement.found = co_await agree_on_machine(channel, agreement.settings);
}

struct Gather {
  const std::byte* mine;
  std::int64_t bytes;
  std::byte* all;
  std::byte* scratch;
};

}  // namespace

CommunicatorState::CommunicatorState(std::unique_ptr<Transport> transport_of_this_rank, Settings settings_in_force)
    : settings(settings_in_force),
      transport(std::move(transport_of_this_rank)),
      engine(*transport, settings.timeout_seconds),
      topology(std::vector<Location>(static_cast<std::size_t>(transport->size())), transport->rank()) {}

const FoundMachine& CommunicatorState::agreed_machine() {
  if (machine) return *machine;
  Agreement agreement{settings, {}};
  run_blocking(
      "agreeing on a machine", setup_tag,
      [](Channel channel, void* argument) { return agree(channel, *static_cast<Agreement*>(argument)); }, &agreement);
  machine = std::move(agreement.found);
  return *machine;
}

int CommunicatorState::next_tag() { return 1 + plans_made++ % (transport->max_tag() - 1); }

void CommunicatorState::run_blocking(const char* name, int tag, task<void> (*body)(Channel, void*), void* argument) {
  Run run;
  TrafficCount traffic;
  run.name = name;
  run.tag = tag;
  run.root = body(Channel(engine, topology, run, traffic), argument);
  engine.start(run);
  engine.drive(run);
  run.root.get();
}

void allgather_blocking(CommunicatorState& comm, int tag, const char* name, const std::byte* mine, std::int64_t bytes,
                        std::byte* all) {
  std::vector<std::byte> scratch(static_cast<std::size_t>(bytes * comm.transport->size()));
  Gather gather{mine, bytes, all, scratch.data()};
  comm.run_blocking(
      name, tag,
      [](Channel channel, void* argument) {
        const Gather& g = *static_cast<Gather*>(argument);
        return allgather_control(channel, g.mine, g.bytes, g.all, g.scratch);
      },
      &gather);
}

std::shared_ptr<CommunicatorState> make_communicator(std::unique_ptr<Transport> transport, std::optional<Location> location,
                                                     std::optional<Settings> settings) {
  Introduction mine;
  Settings in_force;
  try {
    in_force = settings ? *settings : read_settings();
    mine.location = location ? *location : locate();
    mine.measure = in_force.calibrate ? 1 : 0;
    const DevicePath path = transport->device_path(in_force.cuda_aware_mpi);
    mine.direct = path.direct ? 1 : 0;
    path.why.copy(mine.text.data(), mine.text.size() - 1);
  } catch (const Error& error) {
    mine.status = error.status();
    std::strncpy(mine.text.data(), error.what(), mine.text.size() - 1);
  }
  auto state = std::make_shared<CommunicatorState>(std::move(transport), in_force);
  std::vector<Introduction> all(static_cast<std::size_t>(state->transport->size()));
  allgather_blocking(*state, setup_tag, "making a communicator", reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                     reinterpret_cast<std::byte*>(all.data()));

  std::vector<Location> locations;
  std::vector<DevicePath> paths;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].status != WEIR_OK) fail(static_cast<weir_status>(all[rank].status), "rank {}: {}", rank, all[rank].text.data());
    locations.push_back(all[rank].location);
    paths.push_back({all[rank].direct != 0, all[rank].text.data()});
  }
  state->topology = Topology(std::move(locations), state->transport->rank());
  state->device_path = agreed_device_path(paths);
  if (all[0].measure != 0) state->agreed_machine();
  return state;
}

}  // namespace detail

int Communicator::rank() const { return state_->topology.rank(); }
int Communicator::size() const { return state_->topology.size(); }
std::string Communicator::topology() const { return state_->topology.tree(); }
int Communicator::nearest_gpu() const {
  detail::CommunicatorState& comm = *state_;
  SeenGpus mine;
  mine.numa = comm.topology.location(rank()).numa;
  if (cuda::why_unusable().empty()) mine.count = std::min(cuda::device_count(), SeenGpus::most);
  for (int gpu = 0; gpu < mine.count; ++gpu) {
    SeenGpu& seen = mine.gpus[static_cast<std::size_t>(gpu)];
    const std::string bus_id = cuda::describe(gpu).bus_id;
    bus_id.copy(seen.bus_id.data(), seen.bus_id.size() - 1);
    seen.numa = numa_of_pci_device(bus_id.c_str());
  }
  std::vector<SeenGpus> all(static_cast<std::size_t>(size())), node;
  detail::allgather_blocking(comm, detail::setup_tag, "looking for GPUs", reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                             reinterpret_cast<std::byte*>(all.data()));
  for (const int peer : comm.topology.node_peers()) node.push_back(all[static_cast<std::size_t>(peer)]);
  return assign_gpus(node)[static_cast<std::size_t>(comm.topology.local_rank(rank()))];
}
Level Communicator::level(int peer) const {
  require(peer >= 0 && peer < size(), "rank {} does not exist: the communicator has ranks 0 to {}", peer, size() - 1);
  return state_->topology.level(rank(), peer);
}

}  // namespace weir
