// weir-benchmarks pto: measures LARS and LAMB over the layers of well-known networks, with work divided among ranks, against every
// rank doing all of it. Start it with mpirun.
#include "benchmarks/pto.hpp"

#include <algorithm>

#include "benchmarks/benchmarks.hpp"
#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"

namespace weir::cli {
namespace {

PtoHost host() {
  return {[] { MPI_Barrier(MPI_COMM_WORLD); },
          [](std::span<float> values) { std::ranges::copy(make_gradients(std::ssize(values), 0, 1)[0], values.begin()); }};
}

void run(const PtoOptions& options) {
  const std::vector<FusionModel> models = load_models(options.models);
  const Communicator comm = start_ranks(options.json);
  bench_pto(comm, options, models, host());
}

}  // namespace

void add_pto(Command& benchmarks) {
  auto [command, options] = benchmarks.add(
      "pto", "Measure LARS and LAMB over the layers of well-known networks, divided among ranks and not; start with mpirun", run);
  add_pto_options(command, options);
}

}  // namespace weir::cli
