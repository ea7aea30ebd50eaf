/* One rank never makes a communicator. The other one times out, and MPI, which still waits, cannot be finalised. */
#include <stdio.h>
#include <unistd.h>
#include <weir/weir.h>

#include "expect.h"

int main(void) {
  weir_comm* comm = NULL;
  EXPECT(weir_init() == WEIR_OK);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1) {
    sleep(20); /* until the launcher ends it */
    return 0;
  }
  EXPECT(weir_comm_create_world(&comm) == WEIR_ERR_TIMEOUT && comm == NULL);
  EXPECT(weir_comm_destroy(comm) == WEIR_OK);
  EXPECT(weir_finalize() == WEIR_ERR_STATE);
  printf("refused: %s\n", weir_last_error(NULL));
  fflush(stdout);
  return 0;
}
