// A plan, a table, a schedule and an error from C++.
#include <weir/mpi.h>

#include <cstdio>
#include <vector>
#include <weir/embedding.hpp>
#include <weir/schedule.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const weir::Communicator comm(MPI_COMM_WORLD);
    weir::AllreducePlan plan(comm, {.count = 1000, .density = 0.01});
    std::vector<float> gradient(1000, 0.5F);
    plan.run(gradient);
    weir::EmbeddingTable table(comm,
                               {.rows = 10, .width = 4, .largest_batch = 1, .exchange = std::string(weir::exchanges()[0].name)});
    const std::vector<std::int64_t> ids = {7};
    std::vector<float> vector(4);
    weir::StepSchedule schedule({"words"});
    schedule.started("words", table.lookup(std::span(ids), vector));
    schedule.wait("words");
    try {
      weir::AllreducePlan wrong(comm, {.count = -1});
    } catch (const weir::Error& error) {  // its type crosses the library's border
      std::printf("%zu entries; %s\n", plan.sparse_result<float>().indices.size(), error.what());
    }
  }
  MPI_Finalize();
}
