// weir_simulate_pto: runs `weir-benchmarks pto` on a simulated machine. Start it with smpirun; see README.md. All times are
// simulated.
//
// Models keep their real sizes, because blocks of layers would shrink less than layers. All large arrays of all ranks are therefore
// the same few pages. The linker's --wrap redirects Buffer's memory to SMPI's shared memory, and SMPI copies no messages between
// such arrays. Kernels do not run (WEIR_WITHOUT_VALUES), but their costs are charged. Norms are zeros.
#include <mpi.h>
#include <smpi/smpi.h>
#include <weir/mpi.h>

#include <cstddef>
#include <new>
#include <unordered_set>

#include "benchmarks/pto.hpp"
#include "cli/command.hpp"
#include "start_together.hpp"

namespace {

constexpr std::size_t large = std::size_t{1} << 20;
std::unordered_set<void*> shared;

}  // namespace

extern "C" {
void* __real__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t& tag);
void __real__ZdlPvSt11align_val_t(void* p, std::align_val_t alignment);

void* __wrap__ZnwmSt11align_val_tRKSt9nothrow_t(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t& tag) {
  if (bytes < large) return __real__ZnwmSt11align_val_tRKSt9nothrow_t(bytes, alignment, tag);
  return *shared.insert(smpi_shared_malloc(bytes, __FILE__, __LINE__)).first;
}
void __wrap__ZdlPvSt11align_val_t(void* p, std::align_val_t alignment) {
  if (shared.erase(p) > 0)
    smpi_shared_free(p);
  else
    __real__ZdlPvSt11align_val_t(p, alignment);
}
}

int main(int argc, char** argv) {
  weir::cli::PtoOptions options;
  options.iterations = 1;
  options.warmup = 0;
  weir::cli::CommandLine app("Weir's LARS and LAMB on a simulated machine");
  weir::cli::add_pto_options(app, options);
  if (const int status = app.run(argc, argv); status != 0) return status;
  const std::vector<weir::cli::FusionModel> models = weir::cli::load_models(options.models);
  MPI_Init(&argc, &argv);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    bench_pto(comm, options, models, {start_together, [](std::span<float> /*zeros*/) {}});
  }
  MPI_Finalize();
  return 0;
}
