/* To be preloaded: an MPI_Iallreduce whose first element is off by one, on all ranks. `weir selftest` must notice. */
#include <mpi.h>

int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  if (type == MPI_FLOAT && count > 1000) {
    *request = MPI_REQUEST_NULL;
    const int status = PMPI_Allreduce(send, receive, count, type, op, comm);
    ((float*)receive)[0] += 1;
    return status;
  }
  return PMPI_Iallreduce(send, receive, count, type, op, comm, request);
}
