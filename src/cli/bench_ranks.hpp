// bench_ranks.hpp: shared by benchmarks that run under mpirun.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <span>
#include <string>

namespace weir::cli {

/// Returns the slowest rank's time of `body`, on every rank.
template <class Body>
double milliseconds(Body body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  body();
  double mine = (MPI_Wtime() - begin) * 1e3, slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

[[nodiscard]] inline std::int64_t over_ranks(std::int64_t value, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT64_T, op, MPI_COMM_WORLD);
  return value;
}

/// Reduces each of `values` over ranks, in place.
inline void over_ranks(std::span<double> values, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, op, MPI_COMM_WORLD);
}

/// Progress shown by rank 0: a line that is rewritten on a terminal, otherwise (mpirun pipes stderr) a line every few seconds.
class Progress {
 public:
  Progress(bool speaks, std::string what, int total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void at(int done);

 private:
  bool speaks_, terminal_;
  std::string what_;
  int total_;
  double last_ = MPI_Wtime();
};

}  // namespace weir::cli
