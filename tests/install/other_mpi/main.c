/* A program of another MPI than that of the libweir given as argument: it must be refused with a text, and the program continues.
 */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct weir_comm weir_comm;

static void* function(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "no %s: %s\n", name, dlerror());
    exit(2);
  }
  return found;
}

/* A conversion that ISO C has no other way for. */
#define GET(variable, name) *(void**)&(variable) = function(weir, name)

int main(int argc, char** argv) {
  int (*init)(void), (*create)(weir_comm**), rank = -1;
  const char* (*last_error)(const weir_comm*);
  void* weir = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (weir == NULL) {
    fprintf(stderr, "%s\n", argc == 2 ? dlerror() : "give it a libweir");
    return 2;
  }
  GET(init, "weir_init");
  GET(create, "weir_comm_create_world");
  GET(last_error, "weir_last_error");

  weir_comm* comm = (weir_comm*)&comm;
  int status = init();
  printf("before MPI_Init: status %d, %s\n", status, last_error(NULL));
  status = create(&comm);
  printf("before MPI_Init: status %d, %s\n", status, last_error(NULL));
  MPI_Init(&argc, &argv);
  status = create(&comm);
  printf("after MPI_Init: status %d, %s\n", status, last_error(NULL));
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("rank %d goes on\n", rank);
  MPI_Finalize();
  return comm == NULL ? 0 : 3;
}
