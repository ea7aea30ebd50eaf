#include <stdio.h>
#include <weir/mpi.h>
#include <weir/sums.h>

static weir_comm* comm;

static void check(weir_status status) {
  if (status == WEIR_OK) return;
  fprintf(stderr, "%s\n", weir_last_error(comm));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  weir_sparse_sum_config config = WEIR_SPARSE_SUM_CONFIG_INIT;
  weir_sparse_sum* charge;
  int64_t cells[3], count;
  const int64_t* at;
  const double deposits[3] = {0.5, 0.25, 0.25};
  const void* sums;
  int rank, size;

  MPI_Init(&argc, &argv);
  check(weir_comm_create_mpi(MPI_COMM_WORLD, &comm));
  check(weir_comm_rank(comm, &rank));
  check(weir_comm_size(comm, &size));
  cells[0] = 7000000000 + rank; /* this rank's particles: a cell may come twice, in any order */
  cells[1] = 42;
  cells[2] = 42;

  config.count = 8000000000; /* cells of the whole mesh */
  config.expected_entries = 3;
  check(weir_sparse_sum_create(comm, &config, &charge));
  check(weir_sparse_sum_run(charge, cells, 8, deposits, 3, NULL, 0, 0));
  check(weir_sparse_sum_result(charge, &at, &sums, &count)); /* on every rank: the cells that any rank has */
  printf("rank %d of %d: %lld cells, %.2f in cell %lld\n", rank, size, (long long)count, ((const double*)sums)[0],
         (long long)at[0]);

  check(weir_sparse_sum_destroy(charge));
  check(weir_comm_destroy(comm));
  MPI_Finalize();
  return 0;
}
