// openmp_beside.cpp: measures whether a program's OpenMP loops get slower beside Weir's threads. Its one rank repeats a run of a
// plan and an OpenMP loop, first with plans of one thread, when Weir has no threads in the process, then with plans of several.
//
//   openmp_beside [ELEMENTS [ITERATIONS]]
#include <mpi.h>
#include <omp.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <weir/weir.hpp>

namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

/// Returns the milliseconds of y += x by the program's OpenMP, right after a run of the plan.
double openmp_pass(weir::AllreducePlan& plan, const std::vector<float>& x, std::vector<float>& y) {
  plan.run_sparse(x);
  const double begin = MPI_Wtime();
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < x.size(); ++i) y[i] += x[i];
  return 1e3 * (MPI_Wtime() - begin);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 16777216;
  const int iterations = argc > 2 ? std::atoi(argv[2]) : 20;
  if (count < 1 || iterations < 1) {
    std::fprintf(stderr, "usage: openmp_beside [ELEMENTS [ITERATIONS]], both from 1 up\n");
    return 2;
  }
  MPI_Init(&argc, &argv);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    std::vector<float> x(static_cast<std::size_t>(count)), y(x.size(), 0.0F);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761U % 1000003) / 1000003;
    const int threads = std::max(2, omp_get_max_threads());
    weir::AllreducePlan one(comm, {.count = count, .density = 0.01, .threads = 1});
    weir::AllreducePlan several(comm, {.count = count, .density = 0.01, .threads = threads});
    std::vector<double> alone, beside;
    for (int t = -3; t < iterations; ++t) {
      const double after_one = openmp_pass(one, x, y), after_several = openmp_pass(several, x, y);
      if (t < 0) continue;
      alone.push_back(after_one);
      beside.push_back(after_several);
    }
    if (comm.rank() == 0)
      std::printf("r[i] += g[i] on %d OpenMP threads, %lld floats: %.3f ms after a run on one thread, %.3f ms after one on %d\n",
                  omp_get_max_threads(), static_cast<long long>(count), median(alone), median(beside), threads);
  }
  MPI_Finalize();
}
