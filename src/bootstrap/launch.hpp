// launch.hpp: who started this process, as its environment says.
#pragma once

#include <string>

namespace weir::bootstrap {

enum class Starter {
  launcher,   ///< mpirun, srun or another launcher that MPI itself understands
  variables,  ///< RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them: Weir connects the processes
  alone,      ///< this is the only process
};

struct Launch {
  Starter starter = Starter::alone;
  bool within = false;           ///< alone within torchrun: variables of a launcher around it are not for this process
  std::string found{};           ///< the environment variables that say so; empty if it is alone
  int rank = 0;                  ///< of Starter::variables, like all below
  int size = 1;                  ///< number of processes
  bool one_node = false;         ///< whether LOCAL_WORLD_SIZE says that all processes are on this node
  std::string master_address{};  ///< MASTER_ADDR: a name or an address of rank 0's node
  int first_port = 0;            ///< rank 0 listens on the first free port from here
  int last_port = 0;             ///< to here
  std::string job{};             ///< the same for all processes of a job, and another for other jobs on these ports; no spaces
};

/// Reads the environment. The order is: torchrun (which may itself run under srun), launchers of MPI, RANK and WORLD_SIZE, alone.
/// Throws Error(WEIR_ERR_SETTING), naming the variable and what would be right, if WORLD_SIZE is above 1 and others of these
/// variables are missing or make no sense.
[[nodiscard]] Launch read_launch();

/// Notes in the environment that this process has started MPI, so that programs that it starts are not taken for ranks.
void note_started();
/// Removes the variables that launchers of MPI have left for another process.
void forget_launchers();

/// Returns a line about it for `weir info`.
[[nodiscard]] std::string describe(const Launch& launch);

}  // namespace weir::bootstrap
