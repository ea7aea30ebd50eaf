// A rank that no launcher of MPI has started: test_start.sh sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and runs several.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>
#include <weir/weir.hpp>

namespace {

/// Averages a gradient over all ranks. Returns the first element of the result.
float average(const weir::Communicator& comm) {
  weir::AllreducePlan plan(comm, {.count = 1000, .density = 1.0, .algorithm = "oktopk"});
  std::vector<float> gradient(1000, static_cast<float>(comm.rank()));
  plan.run(gradient);
  return gradient[0];
}

void run(std::string_view what) {
  if (what == "too_late") MPI_Init(nullptr, nullptr);
  weir::detail::start_mpi(MPI_THREAD_MULTIPLE);
  const weir::Communicator comm(MPI_COMM_WORLD);
  if (std::getenv("PMI_FD") != nullptr) throw weir::Error(WEIR_ERR_INTERNAL, "PMI_FD is still set");
  const auto children_live = std::chrono::seconds(3);
  if (what == "dies" && comm.rank() == 2) std::_Exit(9);
  if (what == "aborts") {
    if (comm.rank() == 1) MPI_Abort(MPI_COMM_WORLD, 7);
    std::this_thread::sleep_for(std::chrono::seconds(60));
  }
  if (what == "forks" && fork() == 0) {  // its end means nothing, and it keeps no connection open
    std::this_thread::sleep_for(children_live);
    std::_Exit(0);
  }
  if (what == "forks" && comm.rank() == 1) std::_Exit(9);
  const float result = average(comm);
  fmt::print("rank {} of {}, {} on its node: {}\n", comm.rank(), comm.size(), comm.group(weir::Level::node).size(), result);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  try {
    run(what);
    if (what != "leaves") weir::detail::finalise_mpi();
  } catch (const weir::Error& error) {
    const std::string_view text = error.what();
    fmt::print(stderr, "error {}: {}\n", static_cast<int>(error.status()), text.substr(0, text.find("; in flight")));
    return 1;
  }
}
