// test_elastic.cpp: a run that continues with another number of ranks, or on other nodes, loses nothing and still trains.
#include <cmath>
#include <mutex>
#include <weir/checkpoint.hpp>

#include "collectives/allreduce.hpp"
#include "embedding/partition.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/table_training.hpp"
#include "support/temporary_folder.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

struct Job {
  int ranks;
  const char* machine;
};
struct Change {
  Job from, to;
};
constexpr std::array changes = {Change{{4, ""}, {3, ""}},
                                Change{{4, ""}, {7, ""}},
                                Change{{7, ""}, {1, ""}},
                                Change{{1, ""}, {4, ""}},
                                Change{{4, "node:4 rank:1"}, {4, "node:2 rank:2"}},
                                Change{{4, "node:2 rank:2"}, {4, "node:4 rank:1"}},
                                Change{{6, "node:2 rank:3"}, {8, "node:4 rank:2"}},
                                Change{{5, "nodes:2,3"}, {7, "nodes:4,3"}},
                                Change{{5, ""}, {33, ""}}};

std::string text_of(const Change& change, const std::string& what) {
  return fmt::format("{}: {} ranks on '{}' to {} on '{}'", what, change.from.ranks, change.from.machine, change.to.ranks,
                     change.to.machine);
}

/// The state of each rank.
template <class T>
struct Kept {
  std::int64_t begin = 0;
  std::vector<T> residual;
};
template <class T>
Kept<T> kept_by(const AllreducePlan& plan) {
  const std::span<const T> residual = plan.residual<T>();
  return {plan.residual_begin(), {residual.begin(), residual.end()}};
}

/// Returns the sum of element i over all ranks, and its largest magnitude on any rank.
template <class T>
std::pair<long double, long double> sum_of(const std::vector<Kept<T>>& ranks, std::int64_t i) {
  long double sum = 0, magnitude = 0;
  for (const Kept<T>& kept : ranks) {
    const std::int64_t at = i - kept.begin;
    if (at < 0 || at >= static_cast<std::int64_t>(kept.residual.size())) continue;
    sum += static_cast<long double>(kept.residual[static_cast<std::size_t>(at)]);
    magnitude = std::max(magnitude, std::abs(static_cast<long double>(kept.residual[static_cast<std::size_t>(at)])));
  }
  return {sum, magnitude};
}

template <class T>
std::string changed(const Change& change, const AllreduceConfig& config) {
  constexpr int before = 4, after = 4;
  const TemporaryFolder folder;
  RankCheck check;
  std::vector<Kept<T>> old_ranks(static_cast<std::size_t>(change.from.ranks)), new_ranks(static_cast<std::size_t>(change.to.ranks)),
      last_ranks(static_cast<std::size_t>(change.to.ranks));
  const auto gradient_of = [&](const Communicator& comm, int t) {
    return make_input<T>(Input::heavy_tailed, config.count, comm.rank(), comm.size(), t);
  };
  run_ranks(change.from.ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, config);
              for (int t = 0; t < before; ++t) {
                std::vector<T> gradient = gradient_of(comm, t);
                plan.run(gradient);
              }
              old_ranks[static_cast<std::size_t>(comm.rank())] = kept_by<T>(plan);
              Checkpoint checkpoint(comm, {.folder = folder.path()});
              checkpoint.add("gradient", plan);
              checkpoint.save(before).wait();
            },
            {.machine = change.from.machine});
  std::vector<std::vector<T>> updates(static_cast<std::size_t>(change.to.ranks));
  std::vector<T> delivered(static_cast<std::size_t>(config.count));
  run_ranks(change.to.ranks,
            [&](Communicator& comm) {
              const auto rank = static_cast<std::size_t>(comm.rank());
              AllreducePlan plan(comm, config);
              Checkpoint checkpoint(comm, {.folder = folder.path()});
              checkpoint.add("gradient", plan);
              check.that(checkpoint.restore() == before, "the step");
              check.that(plan.statistics().iteration == before, "the count of runs");
              new_ranks[rank] = kept_by<T>(plan);
              for (int t = before; t < before + after; ++t) {
                updates[rank] = gradient_of(comm, t);
                plan.run(updates[rank]);
                if (rank == 0) {
                  for (std::size_t i = 0; i < delivered.size(); ++i)
                    delivered[i] += updates[0][i] * static_cast<T>(change.to.ranks);
                }
              }
              last_ranks[rank] = kept_by<T>(plan);
            },
            {.machine = change.to.machine});
  constexpr long double rounding = sizeof(T) == 4 ? 0x1p-24L : 0x1p-53L;
  for (std::int64_t i = 0; i < config.count; ++i) {
    const auto [sum, magnitude] = sum_of(old_ranks, i);
    const auto [now, now_magnitude] = sum_of(new_ranks, i);
    // Allow one rounding of one rank's value: at most half a unit in its last place.
    check.that(std::abs(now - sum) <= rounding * std::max(now_magnitude, magnitude) * 1.01L,
               fmt::format("element {} sums to {} and then to {}", i, static_cast<double>(sum), static_cast<double>(now)));
    const auto [kept, kept_magnitude] = sum_of(last_ranks, i);
    long double in = now;
    long double scale = now_magnitude + kept_magnitude;
    for (int t = before; t < before + after; ++t) {
      for (int rank = 0; rank < change.to.ranks; ++rank) {
        const auto x = static_cast<long double>(
            make_input<T>(Input::heavy_tailed, config.count, rank, change.to.ranks, t)[static_cast<std::size_t>(i)]);
        in += x;
        scale += std::abs(x);
      }
      if (i % 97 != 0) break;
    }
    if (i % 97 == 0)
      check.that(std::abs(in - kept - static_cast<long double>(delivered[static_cast<std::size_t>(i)])) <= 64 * rounding * scale,
                 fmt::format("element {} is lost on the way", i));
  }
  for (const std::vector<T>& update : updates) check.that(update == updates[0], "ranks have different updates");
  const bool whole = std::all_of(new_ranks.begin(), new_ranks.end(), [&](const Kept<T>& kept) {
    return static_cast<std::int64_t>(kept.residual.size()) == config.count;
  });
  if (change.from.ranks <= change.to.ranks && std::string_view(change.from.machine).empty() && whole) {
    for (std::size_t rank = 0; rank < new_ranks.size(); ++rank) {
      const std::vector<T> expected =
          rank < old_ranks.size() ? old_ranks[rank].residual : std::vector<T>(new_ranks[rank].residual.size());
      check.that(new_ranks[rank].residual == expected, fmt::format("rank {} has not what one rank had", rank));
    }
  }
  return check.failure().empty() ? ""
                                 : text_of(change, config.algorithm + " threshold " + config.threshold) + ": " + check.failure();
}

template <class T>
AllreduceConfig config_of(std::string_view algorithm, const std::string& threshold) {
  return {.count = 1501,
          .type = data_type_of<T>,
          .k = 40,
          .algorithm = std::string(algorithm),
          .algorithm_parameters = parameters_for(algorithm, "boundary_period=3"),
          .threshold = threshold,
          .threshold_parameters = period_of(threshold, 3)};
}

}  // namespace

TEST_CASE("residuals keep their sum over the ranks, whatever their number", "[checkpoint]") {
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory || !row.sparse()) continue;
    for (const Change& change : changes) {
      for (const std::string threshold : {"exact", "reuse", "sidco"}) {
        if (left_out()) continue;
        REQUIRE(changed<float>(change, config_of<float>(row.name, threshold)) == "");
      }
    }
  }
  REQUIRE(changed<double>(changes[0], config_of<double>("oktopk", "reuse")) == "");
  REQUIRE(changed<double>(changes[2], config_of<double>("hi_oktopk", "exact")) == "");
  AllreduceConfig automatic = config_of<float>("auto_sparse", "exact");
  automatic.trial_iterations = 2;
  REQUIRE(changed<float>(changes[0], automatic) == "");
  REQUIRE(changed<float>(changes[6], automatic) == "");
}

TEST_CASE("EF21 comes to the gradient of other ranks", "[checkpoint]") {
  struct Travel {
    const char *algorithm, *compressor;
  };
  for (const Travel& travel : {Travel{"oktopk", "top_k"}, Travel{"hitopk", "top_k"}, Travel{"packed_allgather", "lossless"},
                               Travel{"packed_reduce_scatter", "block_quantise"}, Travel{"dense_ring", "shared_random_k"}}) {
    for (const bool average : {true, false}) {
      for (const Change& change : changes) {
        if (left_out() || change.to.ranks == 33) continue;
        INFO(text_of(change, travel.algorithm));
        const AllreduceConfig config{.count = 60,
                                     .k = 20,
                                     .algorithm = travel.algorithm,
                                     .compressor = travel.compressor,
                                     .error_feedback = Feedback::ef21,
                                     .average = average};
        const auto gradient_of = [](int rank) {
          std::vector<float> gradient(60);
          for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i) + static_cast<float>(rank);
          return gradient;
        };
        const TemporaryFolder folder;
        double old_sum = 0, new_sum = 0;
        const auto add_residual = [](double& sum, const AllreducePlan& plan) {
          static std::mutex mutex;
          const std::lock_guard lock(mutex);
          for (const float x : plan.residual<float>()) sum += static_cast<double>(x);
        };
        run_ranks(change.from.ranks,
                  [&](Communicator& comm) {
                    AllreducePlan plan(comm, config);
                    for (int t = 0; t < 5; ++t) {
                      std::vector<float> update = gradient_of(comm.rank());
                      plan.run(update);
                    }
                    add_residual(old_sum, plan);
                    Checkpoint checkpoint(comm, {.folder = folder.path()});
                    checkpoint.add("gradient", plan);
                    checkpoint.save(5).wait();
                  },
                  {.machine = change.from.machine});
        RankCheck check;
        run_ranks(change.to.ranks,
                  [&](Communicator& comm) {
                    AllreducePlan plan(comm, config);
                    Checkpoint checkpoint(comm, {.folder = folder.path()});
                    checkpoint.add("gradient", plan);
                    checkpoint.restore();
                    add_residual(new_sum, plan);
                    std::vector<float> update;
                    for (int t = 0; t < 60; ++t) {
                      update = gradient_of(comm.rank());
                      plan.run(update);
                    }
                    for (std::size_t i = 0; i < update.size(); ++i) {
                      const double mean = static_cast<double>(i) + (comm.size() - 1) / 2.0,
                                   right = average ? mean : mean * comm.size();
                      check.that(std::abs(static_cast<double>(update[i]) - right) <= 1e-4 * (right + 1),
                                 fmt::format("element {} is {}, not {}", i, update[i], right));
                    }
                  },
                  {.machine = change.to.machine});
        REQUIRE(check.failure() == "");
        REQUIRE(std::abs(new_sum - old_sum) <= 1e-4 * (std::abs(old_sum) + 1));
      }
    }
  }
}

TEST_CASE("velocities are divided anew, and stay out of residuals", "[checkpoint]") {
  struct Travel {
    const char *algorithm, *compressor, *parameters;
  };
  for (const Travel& travel :
       {Travel{"topk_allgather", "dgc", "momentum=0.5,masking=0"}, Travel{"packed_allgather", "signum", ""}}) {
    for (const Change& change : {changes[0], changes[1], changes[2], changes[3]}) {
      INFO(text_of(change, travel.compressor));
      const AllreduceConfig config{.count = 4,
                                   .k = 4,
                                   .algorithm = travel.algorithm,
                                   .compressor = travel.compressor,
                                   .compressor_parameters = travel.parameters,
                                   .average = false};
      const TemporaryFolder folder;
      run_ranks(change.from.ranks, [&](Communicator& comm) {
        AllreducePlan plan(comm, config);
        std::vector<float> g = {1, -2, 3, -4};
        plan.run(g);
        Checkpoint checkpoint(comm, {.folder = folder.path()});
        checkpoint.add("gradient", plan);
        checkpoint.save(1).wait();
      });
      std::vector<float> update;
      run_ranks(change.to.ranks, [&](Communicator& comm) {
        AllreducePlan plan(comm, config);
        Checkpoint checkpoint(comm, {.folder = folder.path()});
        checkpoint.add("gradient", plan);
        checkpoint.restore();
        std::vector<float> g = comm.rank() < change.from.ranks ? std::vector<float>(4) : std::vector<float>{1, -2, 3, -4};
        if (std::string_view(travel.compressor) == "dgc") g.assign(4, 0);
        plan.run(g);
        if (comm.rank() == 0) update = g;
      });
      const auto old = static_cast<float>(change.from.ranks);
      if (std::string_view(travel.compressor) == "dgc")  // all residuals are delivered; the next update is half of all velocities
        REQUIRE(update == std::vector<float>{0.5F * old, -1 * old, 1.5F * old, -2 * old});
      else
        REQUIRE(update == std::vector<float>{1, -1, 1, -1});
    }
  }
}

TEST_CASE("exchanges along switches go on along others, and along none", "[checkpoint][switches]") {
  for (const Change& change :
       {Change{{4, "switch:2 node:2 rank:1"}, {4, "node:4 rank:1"}}, Change{{4, "node:4 rank:1"}, {4, "switch:2 node:2 rank:1"}},
        Change{{4, "switch:2 node:2 rank:1"}, {4, "switches:1,3 rank:1"}},
        Change{{10, "switches:2,3 rank:2"}, {10, "switches:3,2 rank:2"}},
        Change{{8, "switch:2 node:2 rank:2"}, {6, "switches:2,1 rank:2"}}, Change{{5, "nodes:2,3"}, {8, "switch:2 node:2 rank:2"}},
        Change{{6, "switch:3 node:2 rank:1"}, {4, ""}}}) {
    for (const std::string threshold : {"exact", "reuse", "sidco"}) {
      for (const char* algorithm : {"hi_oktopk", "oktopk"}) {
        if (!left_out(4)) REQUIRE(changed<float>(change, config_of<float>(algorithm, threshold)) == "");
      }
    }
  }
}

TEST_CASE("tables and the optimizer's state are divided anew, exactly", "[checkpoint]") {
  for (const embedding::TableExchange& exchange : embedding::exchange_registry()) {
    for (const Change& change : changes) {
      for (const Optimizer optimizer : {Optimizer::sgd, Optimizer::adam}) {
        if (left_out()) continue;
        const TemporaryFolder folder;
        EmbeddingConfig config = make_table_config(exchange.name, 61, 7, 20);
        config.optimizer = optimizer;
        std::vector<float> rows, again;
        RankCheck check;
        run_ranks(change.from.ranks,
                  [&](Communicator& comm) {
                    EmbeddingTable table(comm, config);
                    for (int t = 0; t < 4; ++t) {
                      const TableBatch batch = make_table_batch(config, comm.rank(), t);
                      std::vector<float> vectors(batch.gradients.size());
                      table.lookup(batch.ids, vectors).wait();
                      table.update(batch.gradients).wait();
                    }
                    const std::vector<float> all = all_rows(table);
                    if (comm.rank() == 0) rows = all;
                    Checkpoint checkpoint(comm, {.folder = folder.path()});
                    checkpoint.add("words", table);
                    checkpoint.save(1).wait();
                  },
                  {.machine = change.from.machine});
        // There and back again: the optimizer's state has passed unchanged through the other division.
        run_ranks(change.to.ranks,
                  [&](Communicator& comm) {
                    EmbeddingTable table(comm, config);
                    Checkpoint checkpoint(comm, {.folder = folder.path()});
                    checkpoint.add("words", table);
                    check.that(checkpoint.restore() == 1, "the step");
                    check.that(same_bits(all_rows(table), rows), "rows at other ranks");
                    checkpoint.save(2).wait();
                  },
                  {.machine = change.to.machine});
        run_ranks(change.from.ranks,
                  [&](Communicator& comm) {
                    EmbeddingTable once(comm, config), twice(comm, config);
                    Checkpoint checkpoint(comm, {.folder = folder.path()});
                    checkpoint.add("words", once);
                    checkpoint.restore_step(1);
                    Checkpoint other(comm, {.folder = folder.path()});
                    other.add("words", twice);
                    other.restore_step(2);
                    for (EmbeddingTable* table : {&once, &twice}) {
                      const TableBatch batch = make_table_batch(config, comm.rank(), 9);
                      std::vector<float> vectors(batch.gradients.size());
                      table->lookup(batch.ids, vectors).wait();
                      table->update(batch.gradients).wait();
                    }
                    check.that(same_bits(all_rows(once), all_rows(twice)), "the step after both ways");
                  },
                  {.machine = change.from.machine});
        INFO(text_of(change, config.exchange));
        REQUIRE(check.failure() == "");
      }
    }
  }
}

TEST_CASE("arrays go where their distribution says", "[checkpoint]") {
  constexpr std::int64_t total = 1 << 19;  // more than one chunk of bytes
  for (const Change& change : changes) {
    for (const std::int64_t compression : {0, 6}) {
      if (left_out()) continue;
      const TemporaryFolder folder;
      RankCheck check;
      const auto whole = [](std::int64_t i) { return static_cast<std::int32_t>(i * 7 % 1001); };
      const auto fill = [&](Communicator& comm, bool check_only) {
        const std::int64_t ranks = comm.size(), rank = comm.rank();
        const std::int64_t first = total * rank / ranks, next = total * (rank + 1) / ranks;
        std::vector<std::int32_t> block(static_cast<std::size_t>(next - first), -1);
        std::vector<double> all(1000, -1), one(1, -1), none;
        std::vector<std::uint8_t> bytes(static_cast<std::size_t>(total + 3), 0);
        std::vector<float> own(static_cast<std::size_t>(rank % 3), -1);
        if (!check_only) {
          for (std::size_t i = 0; i < block.size(); ++i) block[i] = whole(first + static_cast<std::int64_t>(i));
          for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sqrt(static_cast<double>(i));
          for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i % 251);
          one[0] = 3.25;
          for (float& x : own) x = static_cast<float>(rank);
        }
        Checkpoint checkpoint(comm, {.folder = folder.path(), .compression = compression});
        checkpoint.add_block("block", std::span(block), first, total);
        checkpoint.add_replicated("all", std::span(all));
        checkpoint.add_replicated("one", std::span(one));
        checkpoint.add_replicated("none", std::span(none));
        checkpoint.add_replicated("bytes", std::span(bytes));
        checkpoint.add_local("own", std::span(own));
        if (!check_only) {
          checkpoint.set("epoch", std::int64_t{17});
          checkpoint.set("loss", 0.5);
          checkpoint.set("schedule", "cosine");
          checkpoint.save(3).wait();
          return;
        }
        check.that(checkpoint.restore() == 3, "the step");
        for (std::size_t i = 0; i < block.size(); ++i)
          check.that(block[i] == whole(first + static_cast<std::int64_t>(i)), "block element " + std::to_string(i));
        for (std::size_t i = 0; i < all.size(); ++i) check.that(all[i] == std::sqrt(static_cast<double>(i)), "replicated");
        for (std::size_t i = 0; i < bytes.size(); ++i) check.that(bytes[i] == i % 251, "bytes");
        check.that(one[0] == 3.25, "one element");
        for (const float x : own) check.that(x == (rank < change.from.ranks ? static_cast<float>(rank) : -1.F), "local");
        check.that(checkpoint.integer("epoch") == 17 && checkpoint.real("loss") == 0.5 && checkpoint.text("schedule") == "cosine",
                   "values");
        check.that(checkpoint.statistics().ranks == change.from.ranks, "ranks before");
      };
      run_ranks(change.from.ranks, [&](Communicator& comm) { fill(comm, false); }, {.machine = change.from.machine});
      run_ranks(change.to.ranks, [&](Communicator& comm) { fill(comm, true); }, {.machine = change.to.machine});
      INFO(text_of(change, "arrays"));
      REQUIRE(check.failure() == "");
    }
  }
}

}  // namespace weir::test
