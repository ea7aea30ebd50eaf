// The main function of test programs started by mpirun: rank 0 reports, and the job fails if any rank does.
#include <mpi.h>

#include <cstdio>

#include "support/session.hpp"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int failed = weir::test::run_session(argc, argv);
  if (failed != 0) {
    std::fprintf(stderr, "rank %d: %d failed\n", rank, failed);
    MPI_Abort(MPI_COMM_WORLD, 1);  // others may wait for a message that this rank has not sent
  }
  MPI_Finalize();
  return 0;
}
