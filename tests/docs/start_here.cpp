#include <weir/mpi.h>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    weir::Communicator comm(MPI_COMM_WORLD);  // finds nodes, sockets, caches
    std::vector<float> gradient(1000);
    gradient[comm.rank()] = 5;  // this rank's gradient
    gradient[500] = 10;

    weir::AllreducePlan plan(comm, {.count = 1000, .density = 0.01});  // made once per array
    plan.run(gradient);                                                // in place: the mean of the ranks' largest entries

    weir::Operation exchange = plan.start(gradient);  // the same, overlapped with your computation here
    exchange.wait();

    std::printf("rank %d of %d: %.2f %.2f, %lld bytes sent\n", comm.rank(), comm.size(), gradient[comm.rank()], gradient[500],
                static_cast<long long>(plan.statistics().payload_bytes_sent));
  }  // communicator and plan end before MPI_Finalize
  MPI_Finalize();
}
