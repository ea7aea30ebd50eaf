#include "support/mpi_calls.hpp"

#include <mpi.h>

namespace {
weir::test::MpiCalls counted;
}

const weir::test::MpiCalls& weir::test::mpi_calls() { return counted; }

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request* request) {
  ++counted.messages;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  ++counted.messages;
  return PMPI_Irecv(data, count, type, from, tag, comm, request);
}
int MPI_Iallreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  ++counted.collectives;
  return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}
int MPI_Allreduce(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  ++counted.collectives;
  return PMPI_Allreduce(in, out, count, type, op, comm);
}
int MPI_Allgather(const void* in, int in_count, MPI_Datatype in_type, void* out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm) {
  ++counted.collectives;
  return PMPI_Allgather(in, in_count, in_type, out, out_count, out_type, comm);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++counted.collectives;
  return PMPI_Bcast(data, count, type, root, comm);
}
int MPI_Barrier(MPI_Comm comm) {
  ++counted.collectives;
  return PMPI_Barrier(comm);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm* copy, MPI_Request* request) {
  ++counted.communicators;
  return PMPI_Comm_idup(comm, copy, request);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* made) {
  ++counted.collectives;
  ++counted.communicators;
  return PMPI_Comm_dup(comm, made);
}
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm* made) {
  ++counted.collectives;
  ++counted.communicators;
  return PMPI_Comm_split(comm, color, key, made);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* made) {
  ++counted.collectives;
  ++counted.communicators;
  return PMPI_Comm_split_type(comm, type, key, info, made);
}
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* made) {
  ++counted.collectives;
  ++counted.communicators;
  return PMPI_Comm_create_group(comm, group, tag, made);
}
int MPI_Comm_free(MPI_Comm* comm) {
  ++counted.collectives;
  --counted.communicators;
  return PMPI_Comm_free(comm);
}
int MPI_Win_allocate_shared(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* made) {
  ++counted.collectives;
  ++counted.windows;
  return PMPI_Win_allocate_shared(bytes, unit, info, comm, base, made);
}
int MPI_Win_free(MPI_Win* window) {
  ++counted.collectives;
  --counted.windows;
  return PMPI_Win_free(window);
}
}
