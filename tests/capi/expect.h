/* expect.h: assertions of C tests under mpirun. */
#ifndef WEIR_TESTS_EXPECT_H
#define WEIR_TESTS_EXPECT_H

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <weir/mpi.h>

static int rank, ranks, last; /* last: true on the last rank, which passes the wrong arguments */

#define EXPECT(condition)                                                                                                          \
  do {                                                                                                                             \
    if (!(condition)) {                                                                                                            \
      fprintf(stderr, "%s:%d rank %d: not so: %s; last error: %s\n", __FILE__, __LINE__, rank, #condition, weir_last_error(NULL)); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                                                                \
    }                                                                                                                              \
  } while (0)
#define EXPECT_TEXT(text, part) EXPECT(strstr(text, part) != NULL)
#define OK(call) EXPECT((call) == WEIR_OK)
#define WRONG(call) EXPECT((call) == WEIR_ERR_ARGUMENT)
/* Expects that a call fails with this status, and that the error on `comm` contains `part`. */
#define FAILS(call, status, comm, part)       \
  do {                                        \
    EXPECT((call) == (status));               \
    EXPECT_TEXT(weir_last_error(comm), part); \
  } while (0)
#define REFUSED(call, comm, part) FAILS(call, WEIR_ERR_ARGUMENT, comm, part)

static inline void find_ranks(void) {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  last = rank == ranks - 1;
}

/* Initialises MPI, and returns a communicator of all ranks. */
static inline weir_comm* start(int* argc, char*** argv) {
  weir_comm* comm = NULL;
  MPI_Init(argc, argv);
  find_ranks();
  OK(weir_comm_create_mpi(MPI_COMM_WORLD, &comm));
  return comm;
}

static inline int end(weir_comm* comm) {
  OK(weir_comm_destroy(comm));
  MPI_Finalize();
  return 0;
}

#endif
