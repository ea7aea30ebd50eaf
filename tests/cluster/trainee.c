/* What slurm/weir-train.sbatch expects of a training program, without the training: --checkpoint FOLDER --every N; resumes by
   itself; at SIGUSR1 and SIGTERM on any rank it saves and ends with status 75. --steps N of --ms M each; --output FILE: steps and
   an "accuracy" that depends on every step. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static void ask(int signal_number) {
  (void)signal_number;
  asked = 1;
}

static const char* option(int argc, char** argv, const char* name, const char* otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  }
  return otherwise;
}

struct State {
  long step;
  unsigned long sum;
};

static void load(const char* folder, struct State* state) {
  char name[4096];
  snprintf(name, sizeof name, "%s/newest", folder);
  FILE* file = fopen(name, "r");
  if (file == NULL) return;
  if (fscanf(file, "%ld %lu", &state->step, &state->sum) != 2) abort();
  fclose(file);
}

static void save(const char* folder, const struct State* state) {
  char name[4096], part[4096];
  snprintf(name, sizeof name, "%s/newest", folder);
  snprintf(part, sizeof part, "%s/part", folder);
  FILE* file = fopen(part, "w");
  if (file == NULL || fprintf(file, "%ld %lu\n", state->step, state->sum) < 0 || fclose(file) != 0 || rename(part, name) != 0)
    abort();
}

int main(int argc, char** argv) {
  const char *folder = option(argc, argv, "--checkpoint", NULL), *output = option(argc, argv, "--output", NULL);
  const long every = atol(option(argc, argv, "--every", "10")), steps = atol(option(argc, argv, "--steps", "100"));
  const long ms = atol(option(argc, argv, "--ms", "10"));
  struct State state = {0, 1};
  int rank = 0, size = 1, any = 0;
  MPI_Init(&argc, &argv);
  signal(SIGUSR1, ask);
  signal(SIGTERM, ask);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (folder != NULL) load(folder, &state);
  MPI_Barrier(MPI_COMM_WORLD);
  while (state.step < steps && !any) {
    usleep((useconds_t)(1000 * ms));
    state.sum = state.sum * 6364136223846793005UL + (unsigned long)++state.step;
    any = asked;
    MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && folder != NULL && (any || state.step % every == 0)) save(folder, &state);
  }
  if (rank == 0 && !any && output != NULL) {
    FILE* file = fopen(output, "w");
    if (file == NULL) abort();
    fprintf(file, "{\"results\": {\"ranks\": %d, \"steps\": %ld, \"accuracy\": %.9f}}\n", size, state.step,
            (double)(state.sum >> 11) * 0x1p-53);
    fclose(file);
  }
  MPI_Finalize();
  return any ? 75 : 0;
}
