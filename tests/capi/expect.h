/* expect.h: assertions of C tests under mpirun. */
#ifndef WEIR_TESTS_EXPECT_H
#define WEIR_TESTS_EXPECT_H

#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <weir/weir.h>

static int rank;

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

#endif
