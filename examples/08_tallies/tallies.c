/* tallies.c: Monte Carlo transport. Particles start in the middle of a box and score in the cells where they collide. After each
 * batch, all ranks sum their scores: with weir_sparse_sum_run, or with --dense with MPI_Allreduce. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/mpi.h>
#include <weir/sums.h>

static const char usage[] =
    "Usage: tallies [--cells N] [--particles N] [--batches N] [--dense]\n"
    "  --cells N      most cells of the box, which is a cube (2000000)\n"
    "  --particles N  particles of a batch, of all ranks together (20000)\n"
    "  --batches N    number of batches, each of which ends with a sum (5)\n"
    "  --dense        sum whole arrays with MPI_Allreduce\n";

static const double box_width = 10;   /* in mean free paths */
static const double scattering = 0.7; /* part of a particle's weight that a collision leaves */
static const double unit = 1 << 30;   /* scores are integers, multiples of 2^-30: their sums are exact on any number of ranks */

static weir_comm* comm;
static int rank, ranks;

static int64_t most_cells = 2000000, particles = 20000, batches = 5;
static int dense;

static int64_t edge = 1, n; /* cells along an edge of the box, and of the whole box */
/* Cells and scores of the collisions of one batch on this rank. With --dense, `scores` has the scores of all cells. */
static int64_t *cells, *scores;
static int64_t entries, capacity; /* number of collisions, and how many have room */
static int64_t* totals;           /* of all batches and ranks: scores of all cells */
static double all_seconds;
static int64_t all_bytes;

static void stop(const char* why, const char* what) {
  fprintf(stderr, "tallies: %s%s\n", why, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check(weir_status status) {
  if (status != WEIR_OK) stop("", weir_last_error(comm));
}

static void* memory(void* allocated) {
  if (!allocated) stop("not enough memory", "");
  return allocated;
}

/* ---- transport ---- */

/* Each particle has random numbers of its own (splitmix64, begun from its number), so that any rank may follow it. */
static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static double uniform(uint64_t* state) {
  *state += 0x9e3779b97f4a7c15u;
  return (double)(mix(*state) >> 11) / 9007199254740992.0; /* 2^53 */
}

static void score(int64_t cell, int64_t value) {
  if (dense) {
    scores[cell] += value;
    return;
  }
  if (entries == capacity) {
    capacity = capacity ? 2 * capacity : 4096;
    cells = memory(realloc(cells, (size_t)capacity * sizeof *cells));
    scores = memory(realloc(scores, (size_t)capacity * sizeof *scores));
  }
  cells[entries] = cell;
  scores[entries++] = value;
}

static void follow(int64_t particle) {
  const double size = (double)edge;
  uint64_t random = mix((uint64_t)particle);
  double x = 0.5 * size, y = x, z = x, weight = 1; /* place in cells */

  for (;;) {
    const double path = -log(1 - uniform(&random)) * (size / box_width);
    const double up = 2 * uniform(&random) - 1, across = sqrt(1 - up * up);
    const double angle = 6.283185307179586 * uniform(&random);

    x += path * (across * cos(angle));
    y += path * (across * sin(angle));
    z += path * up;
    if (x < 0 || y < 0 || z < 0 || x >= size || y >= size || z >= size) return;
    score(((int64_t)z * edge + (int64_t)y) * edge + (int64_t)x, llround(weight * unit));
    weight *= scattering;
    if (weight < 0.1) { /* Russian roulette keeps the expected weight */
      if (uniform(&random) < 0.5) return;
      weight *= 2;
    }
  }
}

/* ---- sums ---- */

/* Adds the scores of all ranks to the totals, on every rank. */
static void sum_scores(weir_sparse_sum* sum) {
  int64_t i;

  if (!dense) {
    check(weir_sparse_sum_run(sum, cells, 8, scores, entries, totals, n, 1));
    return;
  }
  MPI_Allreduce(MPI_IN_PLACE, scores, (int)n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (i = 0; i < n; ++i) totals[i] += scores[i];
}

static void run_batch(weir_sparse_sum* sum, int64_t batch) {
  weir_sparse_sum_statistics did = {.struct_size = sizeof did};
  int64_t i, bytes = 2 * n * 8 / ranks * (ranks - 1), touched = 0;
  double seconds, slowest;

  entries = 0;
  if (dense) memset(scores, 0, (size_t)n * sizeof *scores);
  for (i = particles * rank / ranks; i < particles * (rank + 1) / ranks; ++i) follow(batch * particles + i);
  for (i = 0; dense && i < n; ++i) touched += scores[i] != 0;

  MPI_Barrier(MPI_COMM_WORLD);
  seconds = MPI_Wtime();
  sum_scores(sum);
  seconds = MPI_Wtime() - seconds;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (!dense) {
    check(weir_sparse_sum_get_statistics(sum, &did));
    touched = did.entries;
    bytes = did.payload_bytes_sent + did.control_bytes_sent;
  }
  if (rank != 0) return;
  printf("%5" PRId64 "%12" PRId64 "%12.4f%12.5f%14" PRId64 "  %s\n", batch + 1, touched, 100 * (double)touched / (double)n, slowest,
         bytes, dense ? "MPI_Allreduce" : did.algorithm);
  all_seconds += slowest;
  all_bytes += bytes;
}

static void report(void) {
  int64_t i, scored = 0;
  uint64_t checksum = 0;
  double collisions = 0;

  for (i = 0; i < n; ++i) {
    if (totals[i] == 0) continue;
    ++scored;
    collisions += (double)totals[i] / unit;
    checksum += mix((uint64_t)totals[i] + mix((uint64_t)i));
  }
  printf("cells with a score      %16" PRId64 "\n", scored);
  printf("  in %% of all cells     %16.4f\n", 100 * (double)scored / (double)n);
  printf("collisions of a particle%16.6f\n", collisions / (double)(particles * batches));
  printf("s of all sums           %16.5f\n", all_seconds);
  printf("bytes sent by rank 0    %16" PRId64 "\n", all_bytes);
  printf("checksum                %016" PRIX64 "\n", checksum);
}

/* ---- options ---- */

static void refuse(const char* why, const char* option) {
  if (rank == 0) fprintf(stderr, "tallies: %s%s\n", why, option);
  MPI_Finalize();
  exit(2);
}

static void read_options(int argc, char** argv) {
  int i;

  for (i = 1; i < argc; ++i) {
    int64_t* number = NULL;
    char* end = NULL;

    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      if (rank == 0) fputs(usage, stdout);
      MPI_Finalize();
      exit(0);
    }
    if (!strcmp(argv[i], "--dense")) {
      dense = 1;
      continue;
    }
    if (!strcmp(argv[i], "--cells")) number = &most_cells;
    if (!strcmp(argv[i], "--particles")) number = &particles;
    if (!strcmp(argv[i], "--batches")) number = &batches;
    if (!number) refuse("there is no option ", argv[i]);
    if (i + 1 < argc) *number = strtoll(argv[i + 1], &end, 10);
    if (!end || *end || *number < 1 || *number > INT_MAX) refuse("give a number from 1 to 2147483647 after ", argv[i]);
    ++i;
  }
}

int main(int argc, char** argv) {
  weir_sparse_sum_config config = WEIR_SPARSE_SUM_CONFIG_INIT;
  weir_sparse_sum* sum = NULL;
  int64_t batch;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  read_options(argc, argv);
  while ((edge + 1) * (edge + 1) * (edge + 1) <= most_cells) ++edge;
  n = edge * edge * edge;
  totals = memory(calloc((size_t)n, sizeof *totals));
  if (dense) scores = memory(malloc((size_t)n * sizeof *scores));

  check(weir_comm_create_mpi(MPI_COMM_WORLD, &comm));
  config.count = n;
  config.type = WEIR_SUM_TYPE_INT64;
  config.name = "tallies";
  check(weir_sparse_sum_create(comm, &config, &sum));

  if (rank == 0) {
    printf("%" PRId64 " cells, %" PRId64 " particles a batch, ranks: %d\n", n, particles, ranks);
    printf("batch     entries  %% of cells    s of sum    bytes sent%s\n", dense ? " (computed)" : "");
  }
  for (batch = 0; batch < batches; ++batch) run_batch(sum, batch);
  if (rank == 0) report();

  check(weir_sparse_sum_destroy(sum));
  check(weir_comm_destroy(comm));
  free(totals);
  free(scores);
  free(cells);
  MPI_Finalize();
  return 0;
}
