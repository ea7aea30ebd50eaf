// mpi_start.hpp: starts MPI for commands, and ends programs.
#pragma once

namespace weir::cli {

class CommandLine;

/// Calls MPI_Init, or MPI_Init_thread for several threads if WEIR_PROGRESS_THREAD requires it. Throws if another MPI's launcher has
/// started this process as one of several.
void start_mpi();

/// Runs the command line's action, prints errors, and finalises MPI if an action has started it. Returns the exit status: 2 if the
/// command line is wrong; `trouble`, by default 1, if the action has failed or its output cannot be written.
[[nodiscard]] int run_program(const CommandLine& line, int argc, const char* const* argv, int trouble = 1);

}  // namespace weir::cli
