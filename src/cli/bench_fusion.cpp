// weir bench fusion: compares all schemes of tensor fusion on the tensors of well-known networks. Start it with mpirun.
#include "cli/bench_fusion.hpp"

#include <chrono>
#include <thread>

#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"

namespace weir::cli {
namespace {

FusionHost host() {
  return {[] { MPI_Barrier(MPI_COMM_WORLD); },
          [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }};
}

void run(const FusionOptions& options) {
  std::vector<FusionModel> models = load_models(options.models);
  const Communicator comm = start_ranks(options.json);
  bench_fusion(comm, options, std::move(models), host());
}

}  // namespace

void add_bench_fusion(Command& bench) {
  auto [command, options] =
      bench.add("fusion", "Measure tensor fusion: training steps of well-known networks with every scheme; start with mpirun", run);
  add_fusion_options(command, options);
  command.examples({"mpirun -n 4 weir bench fusion --model resnet50"});
}

}  // namespace weir::cli
