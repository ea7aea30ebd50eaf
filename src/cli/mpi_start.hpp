// mpi_start.hpp: how commands start MPI, and how programs end.
#pragma once

#include <optional>

namespace weir::cli {

class CommandLine;

/// As MPI_Init; for more than one thread where WEIR_PROGRESS_THREAD asks for one. Throws where another MPI's launcher has started
/// this process as one of several.
void start_mpi();

/// Runs what the command line names, prints what is in its way, and ends MPI where an action has started it. Returns the status to
/// end with: 2 where the command line is wrong, `trouble`, or else 1, where an action has failed or its output cannot be written.
[[nodiscard]] int run_program(const CommandLine& line, int argc, const char* const* argv, std::optional<int> trouble = {});

}  // namespace weir::cli
