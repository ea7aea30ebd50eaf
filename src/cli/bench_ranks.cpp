#include "cli/bench_ranks.hpp"

#include <unistd.h>

#include "base/standard_error.hpp"

namespace weir::cli {

Progress::Progress(bool speaks, std::string what, int total)
    : speaks_(speaks), terminal_(isatty(STDERR_FILENO) != 0), what_(std::move(what)), total_(total) {}

Progress::~Progress() {
  if (speaks_ && terminal_) print_error("\r{:60}\r", "");
}

void Progress::at(int done) {
  if (!speaks_) return;
  if (terminal_) print_error("\r{}: {}/{} ", what_, done, total_);
  const double now = MPI_Wtime();
  if (terminal_ || now - last_ < 5) return;
  last_ = now;
  print_error("{}: {}/{}\n", what_, done, total_);
}

}  // namespace weir::cli
