// Averages an array over all ranks; of each rank's array, the largest 1 % cross the network.
#include <weir/mpi.h>

#include <cstdio>
#include <vector>

void average() {
  const std::int64_t n = 1'000'000;
  std::vector<float> gradient(n);
  weir::Communicator comm(MPI_COMM_WORLD);                        // finds nodes, sockets, caches
  weir::AllreducePlan plan(comm, {.count = n, .density = 0.01});  // made once per array

  for (int step = 1; step <= 3; ++step) {
    for (std::int64_t i = 0; i < n; ++i) gradient[i] = static_cast<float>((7919 * i + step + comm.rank()) % 1000003);
    weir::Operation exchange = plan.start(gradient);  // returns at once; plan.run(gradient) does both
    // compute here what does not need the gradient
    exchange.wait();  // now the gradient is the mean of the ranks' largest entries, and zero elsewhere

    const weir::Statistics& run = plan.statistics();
    if (comm.rank() == 0)
      std::printf("step %d: %lld of %lld entries, %lld bytes sent\n", step, static_cast<long long>(run.selected_global),
                  static_cast<long long>(n), static_cast<long long>(run.payload_bytes_sent));
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  try {
    average();  // communicator and plan end here, before MPI_Finalize
  } catch (const weir::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
}
