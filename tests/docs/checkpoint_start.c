#include <signal.h>
#include <stdio.h>
#include <weir/checkpoint.h>
#include <weir/mpi.h>

static weir_comm* comm;

static void check(weir_status status) {
  if (status == WEIR_OK) return;
  fprintf(stderr, "%s\n", weir_last_error(comm));
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  static float weights[1000], gradient[1000];
  weir_allreduce_config plan_config = WEIR_ALLREDUCE_CONFIG_INIT;
  weir_checkpoint_config config = WEIR_CHECKPOINT_CONFIG_INIT;
  weir_checkpoint* checkpoint;
  weir_plan* plan;
  int64_t step;
  int rank, stop = 0, i;

  MPI_Init(&argc, &argv);
  check(weir_comm_create_mpi(MPI_COMM_WORLD, &comm));
  check(weir_comm_rank(comm, &rank));
  plan_config.count = 1000;
  check(weir_plan_create(comm, &plan_config, &plan));

  config.folder = argc > 1 ? argv[1] : "checkpoints"; /* a folder that all ranks share */
  check(weir_checkpoint_create(comm, &config, &checkpoint));
  check(weir_checkpoint_add_plan(checkpoint, "gradient", plan)); /* its residual and thresholds */
  check(weir_checkpoint_add_array(checkpoint, "weights", weights, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_REPLICATED, 1000, 0, 0));
  check(weir_checkpoint_catch_signal(SIGTERM)); /* sent by a batch system before the time limit */

  check(weir_checkpoint_restore(checkpoint, -1, &step)); /* the newest file; step becomes -1 if there is no file */
  if (step < 0) step = 0;
  if (rank == 0) printf("begins at step %lld\n", (long long)step);
  for (; step < 300 && !stop; ++step) {
    if (step % 100 == 0) check(weir_checkpoint_save(checkpoint, step)); /* returns at once; writes during the next steps */
    for (i = 0; i < 1000; ++i) gradient[i] = (float)((i + rank + (int)step) % 7); /* this rank's gradient */
    check(weir_plan_run(plan, gradient));
    for (i = 0; i < 1000; ++i) weights[i] -= 0.1f * gradient[i];
    check(weir_checkpoint_stop_requested(checkpoint, &stop)); /* if any rank got a signal */
  }
  check(weir_checkpoint_save(checkpoint, step));
  check(weir_checkpoint_wait(checkpoint)); /* waits until the file is in place */

  check(weir_checkpoint_destroy(checkpoint));
  check(weir_plan_destroy(plan));
  check(weir_comm_destroy(comm));
  MPI_Finalize();
  return 0;
}
