// A training loop on 4 ranks in which rank 2 misbehaves before its sixth iteration, to test what `weir trace` reports. Ranks that
// can end by themselves do so once all ranks that can have written their dumps. The argument is freeze, kill, delay (main returns),
// skip (a plan that the others run), signal (requests a dump without a fault) or none.
#include <fmt/format.h>
#include <unistd.h>
#include <weir/mpi.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "communicator/communicator.hpp"

namespace {

using namespace weir;

constexpr int ranks = 4, culprit = 2, iterations = 10, fateful = 6;

/// Waits until `expected` ranks have written a dump, at most a minute.
void await_dumps(int expected) {
  const char* folder = std::getenv("WEIR_DUMP");
  if (folder == nullptr) return;
  for (int tries = 0; tries < 1200; ++tries) {
    std::error_code ignored;
    const auto there = std::ranges::count_if(std::filesystem::directory_iterator(folder, ignored), [](const auto& entry) {
      return entry.path().filename().string().starts_with("weir-dump.") && entry.path().extension() == ".json";
    });
    if (there >= expected) return;
    usleep(50'000);
  }
}

/// Misbehaves on rank 2. Returns true if the rank must leave out a plan.
bool misbehave(std::string_view how, double timeout_seconds) {
  while (how == "freeze") std::raise(SIGSTOP);  // mpirun wakes ranks before it ends them
  if (how == "kill") std::raise(SIGKILL);
  if (how == "delay") {
    sleep(3);
    if (timeout_seconds < 3) await_dumps(ranks - 1);  // on a busy machine, the other ranks' deadlines come later
  }
  return how == "skip";
}

void train(const Communicator& comm, std::string_view how, double timeout_seconds) {
  AllreducePlan early(comm, {.count = 20000, .algorithm = "hi_oktopk", .name = "early layers"}),
      late(comm, {.count = 30000, .density = 0.02, .algorithm = "oktopk", .name = "late layers"});
  std::vector<float> gradient(30000);
  for (int t = 1; t <= iterations; ++t) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = static_cast<float>((i * 2654435761U + static_cast<unsigned>(t)) % 1000);
    const bool leaves_out = t == fateful && comm.rank() == culprit && misbehave(how, timeout_seconds);
    if (t == fateful && how == "signal") std::raise(SIGUSR1);
    if (!leaves_out) late.run(gradient);
    Operation operation = early.start(std::span(gradient).first(20000));
    usleep(1000);  // the caller computes
    operation.wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const std::string_view how = argc > 1 ? argv[1] : "none";
  // The deadline is for the loop only: on a busy machine, making a communicator may take longer.
  const char* const timeout = std::getenv("WEIR_TIMEOUT");
  const double seconds = timeout != nullptr ? std::atof(timeout) : 300;
  setenv("WEIR_TIMEOUT", "60", 1);
  try {
    const Communicator comm(MPI_COMM_WORLD);
    comm.state()->settings.timeout_seconds = seconds;
    comm.state()->engine.set_timeout(seconds);
    train(comm, how, seconds);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    std::fflush(stdout);
    await_dumps(how == "freeze" || how == "kill" ? ranks - 1 : ranks);
    if (how == "kill") _exit(0);  // MPI would wait for the killed rank
    if (how != "delay") MPI_Abort(MPI_COMM_WORLD, 3);
  }
  MPI_Finalize();
  return 0;
}
