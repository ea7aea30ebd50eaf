/* A program that loads the library, uses it, closes it, and ends MPI after that, as plugins of other programs do. argv[1]: the
 * library. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <weir/weir.h>

#define EXPECT(condition)                                                     \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                           \
    }                                                                         \
  } while (0)
#define LOAD(name)                                  \
  *(void**)(&name) = dlsym(library, "weir_" #name); \
  EXPECT(name != NULL)

int main(int argc, char** argv) {
  weir_status (*comm_create_world)(weir_comm**) = NULL;
  weir_status (*comm_destroy)(weir_comm*) = NULL;
  weir_status (*plan_create)(weir_comm*, const weir_allreduce_config*, weir_plan**) = NULL;
  weir_status (*plan_run)(weir_plan*, void*) = NULL;
  weir_status (*plan_destroy)(weir_plan*) = NULL;
  weir_allreduce_config config = WEIR_ALLREDUCE_CONFIG_INIT;
  float gradient[100] = {1};
  int round, rank;

  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (round = 0; round < 2; ++round) {
    weir_comm* comm = NULL;
    weir_plan* plan = NULL;
    void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    EXPECT(library != NULL);
    LOAD(comm_create_world);
    LOAD(comm_destroy);
    LOAD(plan_create);
    LOAD(plan_run);
    LOAD(plan_destroy);
    config.count = 100;
    EXPECT(comm_create_world(&comm) == WEIR_OK);
    EXPECT(plan_create(comm, &config, &plan) == WEIR_OK);
    EXPECT(plan_run(plan, gradient) == WEIR_OK);
    EXPECT(plan_destroy(plan) == WEIR_OK);
    EXPECT(comm_destroy(comm) == WEIR_OK);
    EXPECT(dlclose(library) == 0);
  }
  MPI_Finalize();
  if (rank == 0) printf("test_dlclose passed\n");
  return 0;
}
