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

#endif
