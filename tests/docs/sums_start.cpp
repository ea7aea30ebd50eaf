#include <weir/mpi.h>

#include <cstdint>
#include <cstdio>
#include <vector>
#include <weir/sums.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    weir::SparseSum charge(comm, {.count = 8'000'000'000, .expected_entries = 3});  // cells of the whole mesh
    const std::vector<std::int64_t> cells = {7'000'000'000 + comm.rank(), 42, 42};  // a cell may come twice, in any order
    const std::vector<double> deposits = {0.5, 0.25, 0.25};                         // of this rank's particles
    charge.run(weir::SumInput::entries(cells, deposits));
    const weir::SumView<double> sum = charge.result<double>();  // on every rank: the cells that any rank has
    std::printf("rank %d of %d: %lld cells, %.2f in cell %lld\n", comm.rank(), comm.size(),
                static_cast<long long>(sum.indices.size()), sum.values[0], static_cast<long long>(sum.indices[0]));
  }  // the sum and the communicator end before MPI_Finalize
  MPI_Finalize();
}
