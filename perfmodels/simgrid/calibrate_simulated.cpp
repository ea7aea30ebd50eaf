#include "calibrate_simulated.hpp"

#include <simgrid/engine.h>

#include <vector>

#include "collectives/allreduce.hpp"
#include "communicator/communicator.hpp"
#include "model/calibrate.hpp"

namespace weir::simulation {
namespace {

constexpr int tag = 0;
constexpr double budget = 1e-3;  // simulated time is exact, so few repetitions are enough
constexpr std::int64_t allreduce_count = 1 << 22;

task<void> measure(Channel channel, Machine& machine) { machine = co_await calibrate(channel, budget, nullptr); }

/// Returns the simulated seconds of the MPI library's allreduce, as dense_mpi uses it.
double mpi_allreduce_seconds(const Communicator& comm) {
  std::vector<float> data(allreduce_count);
  AllreducePlan plan(comm, AllreduceConfig{.count = allreduce_count, .density = 1, .algorithm = "dense_mpi"});
  plan.run(data);
  const double begin = simgrid_get_clock();
  plan.run(data);
  return simgrid_get_clock() - begin;
}

}  // namespace

void calibrate_simulated(const Communicator& comm, const std::string& file) {
  Machine machine;
  comm.state()->run_blocking("calibrate", tag, [&](Channel channel) { return measure(channel, machine); });
  const Problem problem = make_problem(comm.state()->topology, allreduce_count, allreduce_count);
  const Cost ring = dense_ring_row.cost(machine, problem);
  machine.mpi_allreduce_factor = mpi_allreduce_seconds(comm) / (ring.in_node + ring.exchange);
  machine.provenance.host = "simulated";
  machine.provenance.mpi = comm.state()->transport->name();
  machine.provenance.command = "weir_simulate --calibrate";
  if (comm.rank() == 0) write_machine(machine, file);
}

}  // namespace weir::simulation
