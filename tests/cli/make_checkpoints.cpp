// make_checkpoints.cpp: writes the files for test_checkpoint.sh: make_checkpoints FOLDER [SEED] [COMPRESSION].
#include <array>
#include <cstdio>
#include <numeric>
#include <string>
#include <weir/checkpoint.hpp>

#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"

namespace weir::test {
namespace {

constexpr int ranks = 4;
constexpr std::int64_t elements = 5000, steps = 3;

void train(const Communicator& comm, const std::string& folder, int seed, std::int64_t compression) {
  const auto rank = static_cast<std::size_t>(comm.rank());
  AllreducePlan plan(comm, {.count = elements, .density = 0.05, .algorithm = "oktopk", .threshold = "exact"});
  EmbeddingTable table(comm, {.rows = 40, .width = 8, .largest_batch = 16, .optimizer = Optimizer::adam, .seed = 7});
  LayerOptimizer optimizer(
      comm, {.rule = OptimizerRule::lamb, .update = OperatorDivision::all},
      std::vector<OptimizedLayer>{{.name = "wide", .count = 70000}, {.name = "bias", .count = 30, .excluded = true}});
  SparseAdam adam({.count = elements});
  const StepSchedule schedule({"lower", "upper"});
  std::vector<float> weights(1000);
  std::iota(weights.begin(), weights.end(), static_cast<float>(seed));
  std::vector<double> block(25);
  std::iota(block.begin(), block.end(), 25.0 * static_cast<double>(rank));
  std::vector<std::int64_t> local(rank + 1, static_cast<std::int64_t>(rank));

  Checkpoint checkpoint(comm, {.folder = folder, .run = "test", .keep = 2, .compression = compression});
  checkpoint.add("gradient", plan);
  checkpoint.add("words", table);
  checkpoint.add("layers", optimizer);
  checkpoint.add("moments", adam);
  checkpoint.add("blocks", schedule);
  checkpoint.add_replicated("weights", std::span(weights));
  checkpoint.add_block("parts", std::span(block), 25 * comm.rank(), 25 * ranks);
  checkpoint.add_local("own", std::span(local));
  checkpoint.set("epoch", std::int64_t{3});
  checkpoint.set("loss", 0.5);
  checkpoint.set("note", "a test");
  std::vector<std::int64_t> ids(16);
  std::vector<float> vectors(ids.size() * 8), wide(70000, 1.0F), bias(30, 1.0F), sparse(elements, 1.0F);
  for (std::int64_t step = 1; step <= steps; ++step) {
    std::vector<float> gradient =
        make_input<float>(Input::heavy_tailed, elements, comm.rank(), ranks, static_cast<int>(step) + seed);
    plan.run_sparse(gradient);
    adam.step(plan.sparse_result<float>(), sparse, 0.1);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int64_t>((3 * i + rank + static_cast<std::size_t>(step)) % 40);
    table.lookup(ids, vectors).wait();
    table.update(vectors).wait();
    const std::vector<float> same = make_input<float>(Input::heavy_tailed, 70000, 0, 1, static_cast<int>(step) + seed);
    optimizer.step(std::array{wide.data(), bias.data()}, std::array{same.data(), same.data()}, 0.1);
    checkpoint.save(step).wait();
  }
}

}  // namespace
}  // namespace weir::test

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    const int seed = argc > 2 ? std::stoi(argv[2]) : 0;
    const std::int64_t compression = argc > 3 ? std::stoll(argv[3]) : 0;
    weir::test::run_ranks(weir::test::ranks,
                          [&](const weir::Communicator& comm) { weir::test::train(comm, argv[1], seed, compression); },
                          {.machine = "node:2 rank:2"});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_checkpoints: %s\n", error.what());
    return 1;
  }
  return 0;
}
