#include <weir/mpi.h>

#include <csignal>
#include <cstdio>
#include <span>
#include <vector>
#include <weir/checkpoint.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    weir::Communicator comm(MPI_COMM_WORLD);
    weir::AllreducePlan plan(comm, {.count = 1000});
    std::vector<float> weights(1000), gradient(1000);

    weir::Checkpoint checkpoint(comm, {.folder = argc > 1 ? argv[1] : "checkpoints"});  // a folder that all ranks share
    checkpoint.add("gradient", plan);                                                   // its residual and thresholds
    checkpoint.add_replicated("weights", std::span(weights));
    weir::Checkpoint::catch_signal(SIGTERM);  // sent by a batch system before the time limit

    std::int64_t step = checkpoint.restore().value_or(0);  // from the newest file, if there is one
    if (comm.rank() == 0) std::printf("begins at step %lld\n", static_cast<long long>(step));
    for (bool stop = false; step < 300 && !stop; ++step) {
      if (step % 100 == 0) checkpoint.save(step);  // returns at once; writes during the next steps
      for (int i = 0; i < 1000; ++i) gradient[i] = static_cast<float>((i + comm.rank() + step) % 7);  // this rank's gradient
      plan.run(gradient);
      for (int i = 0; i < 1000; ++i) weights[i] -= 0.1f * gradient[i];
      stop = checkpoint.stop_requested();  // if any rank got a signal
    }
    checkpoint.save(step).wait();  // waits until the file is in place
  }                                // all of these end before MPI_Finalize
  MPI_Finalize();
}
