// Checkpoints of fused tensors restore the same bits with the same ranks. With other ranks, the sum of all residuals stays.
#include <cmath>
#include <weir/checkpoint.hpp>

#include "fusion/fused_inputs.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_bits.hpp"
#include "support/temporary_folder.hpp"

namespace weir::test {
namespace {

using Tensors = std::vector<std::vector<float>>;

FusionConfig config_of(FusionScheme scheme, const std::string& algorithm) {
  return {.scheme = scheme, .buffer_bytes = 6000, .density = 0.05, .algorithm = algorithm, .threshold = "reuse"};
}

Tensors step(FusedAllreduce& fused, const std::vector<FusedTensor>& tensors, const Communicator& comm, int t) {
  Tensors gradients = gradients_of<float>(tensors, comm.rank(), comm.size(), t);
  for (const int i : order_of(tensors.size(), 0)) fused.ready(i, std::span<float>(gradients[static_cast<std::size_t>(i)]));
  fused.wait_all();
  return gradients;
}

Tensors residuals_of(const FusedAllreduce& fused) {
  Tensors residuals;
  for (int i = 0; i < fused.size(); ++i) residuals.emplace_back(fused.residual<float>(i).begin(), fused.residual<float>(i).end());
  return residuals;
}

}  // namespace

TEST_CASE("fused tensors are added beside a progress thread that writes a checkpoint", "[fusion]") {
  const std::vector<FusedTensor> tensors = odd_tensors();
  const TemporaryFolder folder;
  run_ranks(2,
            [&](Communicator& comm) {
              Checkpoint checkpoint(comm, {.folder = folder.path()});
              FusedAllreduce first(comm, config_of(FusionScheme::ahead, "oktopk"), tensors),
                  second(comm, config_of(FusionScheme::ahead, "oktopk"), tensors);
              checkpoint.add("first", first);
              Operation saved = checkpoint.save(1);
              try {
                checkpoint.add("second", second);
              } catch (const Error& error) {
                if (error.status() != WEIR_ERR_BUSY) throw;
              }
              saved.wait();
            },
            {.settings = {.timeout_seconds = 120, .progress_thread = ProgressThreadSetting::anywhere}});
}

TEST_CASE("fused tensors go on bit for bit from a checkpoint", "[fusion]") {
  const std::vector<FusedTensor> tensors = odd_tensors();
  for (const FusionScheme scheme : all_schemes) {
    const bool adapts = scheme == FusionScheme::ahead_inter_intra || scheme == FusionScheme::ahead_fitted;
    const TemporaryFolder folder;
    RankCheck check;
    run_ranks(4, [&](Communicator& comm) {
      const FusionConfig config = config_of(scheme, adapts ? "topk_dsa" : "oktopk");
      Checkpoint checkpoint(comm, {.folder = folder.path()});
      FusedAllreduce first(comm, config, tensors);
      checkpoint.add("gradients", first);
      for (int t = 0; t < 3; ++t) step(first, tensors, comm, t);
      checkpoint.save(3).wait();
      FusedAllreduce second(comm, config, tensors);
      Checkpoint again(comm, {.folder = folder.path()});
      again.add("gradients", second);
      check.that(again.restore() == std::optional<std::int64_t>(3), "step");
      for (int t = 3; t < 6; ++t) check.that(step(first, tensors, comm, t) == step(second, tensors, comm, t), "update");
      check.that(residuals_of(first) == residuals_of(second), "residuals");
    });
    INFO(name_of(scheme));
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("other ranks take over the residuals of all tensors", "[fusion]") {
  const std::vector<FusedTensor> tensors = odd_tensors();
  for (const FusionScheme scheme : all_schemes) {
    for (const auto& [from, to] : {std::pair{4, 3}, std::pair{2, 5}, std::pair{3, 1}}) {
      const TemporaryFolder folder;
      std::vector<Tensors> before(static_cast<std::size_t>(from)), after(static_cast<std::size_t>(to)), updates(after.size());
      run_ranks(from, [&](Communicator& comm) {
        FusedAllreduce fused(comm, config_of(scheme, "topk_allgather"), tensors);
        Checkpoint checkpoint(comm, {.folder = folder.path()});
        checkpoint.add("gradients", fused);
        for (int t = 0; t < 3; ++t) step(fused, tensors, comm, t);
        checkpoint.save(3).wait();
        before[static_cast<std::size_t>(comm.rank())] = residuals_of(fused);
      });
      run_ranks(to, [&](Communicator& comm) {
        FusedAllreduce fused(comm, config_of(scheme, "topk_allgather"), tensors);
        Checkpoint checkpoint(comm, {.folder = folder.path()});
        checkpoint.add("gradients", fused);
        checkpoint.restore();
        after[static_cast<std::size_t>(comm.rank())] = residuals_of(fused);
        updates[static_cast<std::size_t>(comm.rank())] = step(fused, tensors, comm, 3);
      });
      INFO(name_of(scheme) << ": " << from << " to " << to);
      double worst = 0;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        for (std::size_t e = 0; e < before[0][i].size(); ++e) {
          double sum = 0, magnitude = 0;
          for (const Tensors& rank : before)
            sum += static_cast<double>(rank[i][e]), magnitude += std::abs(static_cast<double>(rank[i][e]));
          for (const Tensors& rank : after) sum -= static_cast<double>(rank[i][e]);
          worst = std::max(worst, std::abs(sum) / (4 * 1.2e-7 * magnitude + 1e-45));
        }
      }
      REQUIRE(worst <= 1);
      for (const Tensors& of_rank : updates) REQUIRE((of_rank == updates[0]));
    }
  }
}

TEST_CASE("a checkpoint of other tensors, or of another scheme, is refused, by name", "[fusion]") {
  const TemporaryFolder folder;
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    const auto make = [&](const std::vector<FusedTensor>& tensors) {
      return FusedAllreduce(comm, config_of(FusionScheme::ahead_inter, "topk_allgather"), tensors);
    };
    FusedAllreduce first = make(odd_tensors());
    Checkpoint checkpoint(comm, {.folder = folder.path()});
    checkpoint.add("gradients", first);
    checkpoint.save(0).wait();
    std::vector<FusedTensor> others = odd_tensors();
    others[4].name = "wider";
    FusedAllreduce second = make(others);
    Checkpoint again(comm, {.folder = folder.path()});
    again.add("gradients", second);
    std::string text;
    try {
      again.restore();
    } catch (const Error& error) {
      text = error.what();
      check.that(error.status() == WEIR_ERR_MISMATCH, text);
    }
    check.that(text.find("tensors") != std::string::npos, text);
    FusedAllreduce another(comm, config_of(FusionScheme::behind, "topk_allgather"), odd_tensors());
    Checkpoint third(comm, {.folder = folder.path()});
    third.add("gradients", another);
    try {
      third.restore();
      check.that(false, "a checkpoint of another scheme was restored");
    } catch (const Error& error) {
      text = error.what();
    }
    check.that(
        text.find("it is 'ahead_inter' in the state and 'behind' here: make it as in the state, or begin without the state") !=
            std::string::npos,
        text);
    std::vector<std::byte> state(static_cast<std::size_t>(first.state_bytes()));
    first.save_state(state);
    try {
      second.restore_state(state);
      check.that(false, "a state of other tensors was restored");
    } catch (const Error& error) {
      const std::string why = error.what();
      check.that(why.find("field 'tensors': line 5 is 'wide: count 4001") != std::string::npos, why);
      check.that(why.find("in the state and 'wider: count 4001") != std::string::npos, why);
      check.that(why.find("stem") == std::string::npos, why);
    }
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
