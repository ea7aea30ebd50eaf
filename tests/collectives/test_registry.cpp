// Properties of every algorithm of the registry, on flat and nested machines: NaN policies, timeouts, no allocations.
#include <limits>

#include "collectives/allreduce.hpp"
#include "kernels/kernels.hpp"
#include "support/algorithm_parameters.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

std::vector<AllreduceRow> host_rows() {
  std::vector<AllreduceRow> rows;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (row.host_memory) rows.push_back(row);
  }
  return rows;
}

constexpr int ranks = 4;
constexpr std::array machines = {"", "node:2 rank:2", "nodes:3,1", "switches:3,1 rank:1"};
constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> gradient(std::int64_t n, int rank, int t) { return make_input<float>(Input::heavy_tailed, n, rank, ranks, t); }

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return key_of(x) == key_of(y) && (x < 0) == (y < 0); });
}

struct NonFiniteCase {
  static constexpr std::int64_t n = 2000;
  static constexpr int bad_rank = 1, bad_element = 777, clean_iterations = 2;
  const AllreduceRow& row;
  std::string machine;
  NonFinite policy;
  std::int64_t k;
  float poison;
};

/// Element `bad_element` of one rank is poisoned after some clean iterations.
void check_non_finite(const NonFiniteCase& c, const Communicator& comm, RankCheck& check) {
  AllreducePlan plan(comm, {.count = c.n, .k = c.k, .algorithm = std::string(c.row.name), .non_finite = c.policy});
  std::vector<float> g;
  for (int t = 0; t < c.clean_iterations; ++t) {
    g = gradient(c.n, comm.rank(), t);
    plan.run(g);
  }
  const std::vector<float> residual(plan.residual<float>().begin(), plan.residual<float>().end());
  g = gradient(c.n, comm.rank(), c.clean_iterations);
  if (comm.rank() == c.bad_rank) g[c.bad_element] = c.poison;
  const std::vector<float> before = g;
  bool refused = false;
  try {
    plan.run(g);
  } catch (const Error& error) {
    refused = true;
    const std::string named = c.row.sharded ? "on the node of rank " : "gradient of rank 1 ";
    check.that(error.status() == WEIR_ERR_NON_FINITE && std::string(error.what()).find(named) != std::string::npos, error.what());
  }
  check.that(refused == (c.policy == NonFinite::error), "refused");
  if (c.policy == NonFinite::propagate) {
    if (c.k > 0 || !c.row.sparse()) check.that(!std::isfinite(g[c.bad_element]), "travels");
    return;
  }
  check.that(plan.statistics().skipped == (c.policy == NonFinite::skip), "skipped");
  if (c.policy == NonFinite::error)
    check.that(same_bits(g, before), "gradient untouched");
  else
    check.that(std::all_of(g.begin(), g.end(), [](float x) { return x == 0; }), "zero update");
  std::vector<float> size(before.size());  // magnitudes that may have been added to and subtracted from the residual
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<float> other = gradient(c.n, rank, c.clean_iterations);
    for (std::size_t i = 0; i < size.size(); ++i) size[i] += std::abs(other[i]);
  }
  const auto after = plan.residual<float>();
  for (std::size_t i = 0; i < after.size(); ++i) {
    const std::size_t element = static_cast<std::size_t>(plan.residual_begin()) + i;
    check.that(std::abs(after[i] - residual[i]) <= 1e-6F * (std::abs(residual[i]) + size[element]),
               "residual restored at " + std::to_string(element));
  }
  g = gradient(c.n, comm.rank(), c.clean_iterations + 1);
  plan.run(g);
  check.that(std::all_of(g.begin(), g.end(), [](float x) { return std::isfinite(x); }), "finite again");
}

/// Checks that non-finite values travel, rounded or not, and leave nothing in the residual.
void check_residual_stays_finite(const AllreduceRow& row, WireValues values, float poison, const Communicator& comm,
                                 RankCheck& check) {
  AllreducePlan plan(
      comm,
      {.count = 2000, .k = 40, .algorithm = std::string(row.name), .wire_values = values, .non_finite = NonFinite::propagate});
  std::vector<float> g = gradient(2000, comm.rank(), 0);
  if (comm.rank() == 1) g[777] = poison;
  plan.run(g);
  check.that(!std::isfinite(g[777]), std::string(row.name) + ": travels");
  const auto residual = plan.residual<float>();
  check.that(std::all_of(residual.begin(), residual.end(), [](float x) { return std::isfinite(x); }),
             std::string(row.name) + ": residual finite");
}

/// Runs until the peer has gone silent, and once more.
void check_timeout(const std::string& algorithm, Communicator& comm, RankCheck& check) {
  AllreducePlan plan(comm, {.count = 4000,
                            .algorithm = algorithm,
                            .algorithm_parameters = algorithm == "oktopk" ? "schedule=direct" : "",  // sends in a node, too
                            .name = "layer7"});
  set_timeout(comm, 1);
  std::vector<float> g = gradient(4000, comm.rank(), 0);
  try {
    for (int t = 0; t < 100; ++t) plan.run(g);
    check.that(false, "no error");
  } catch (const Error& error) {
    const std::string text = error.what();
    check.that(error.status() == WEIR_ERR_TIMEOUT, text);
    check.that(text.find("layer7") != std::string::npos, text);
    check.that(text.find("awaits [") != std::string::npos || text.find("awaits rank ") != std::string::npos, text);
  }
  try {
    plan.run(g);
    check.that(false, "a broken plan ran");
  } catch (const Error& error) {
    check.that(error.status() == WEIR_ERR_STATE, error.what());
  }
}

/// Checks that every plan gets the same result as when it runs alone.
void check_all_at_once(const std::vector<AllreduceRow>& rows, const Communicator& comm, RankCheck& check) {
  const std::size_t plans = rows.size();
  const auto me = static_cast<std::size_t>(comm.rank());
  const std::int64_t n = 3000;
  std::vector<AllreducePlan> together, alone;
  for (std::size_t p = 0; p < plans; ++p) {
    AllreduceConfig config{.count = n + static_cast<std::int64_t>(p), .algorithm = std::string(rows[p].name)};
    alone.emplace_back(comm, config);
    config.priority = static_cast<int>(me % 2 == 0 ? p : plans - p);
    together.emplace_back(comm, config);
  }
  for (int t = 0; t < 3; ++t) {
    std::vector<std::vector<float>> g, right;
    for (std::size_t p = 0; p < plans; ++p) g.push_back(gradient(n + static_cast<std::int64_t>(p), comm.rank(), t));
    right = g;
    for (std::size_t p = 0; p < plans; ++p) alone[p].run(right[p]);
    std::vector<std::optional<Operation>> operations(plans);
    for (std::size_t i = 0; i < plans; ++i) {
      const std::size_t p = (i + 3 * me) % plans;
      operations[p] = together[p].start(g[p]);
    }
    for (std::size_t i = 0; i < plans; ++i) operations[(plans - 1 - i + me) % plans]->wait();
    for (std::size_t p = 0; p < plans; ++p) check.that(same_bits(g[p], right[p]), std::string(rows[p].name));
  }
}

/// Counts allocations for `inputs[t][rank]`. The first half of the iterations is warm-up.
void check_allocations(const AllreduceConfig& config, const std::vector<std::vector<std::vector<float>>>& inputs,
                       const Communicator& comm, RankCheck& check) {
  AllreducePlan plan(comm, config);
  std::vector<float> g(static_cast<std::size_t>(config.count));
  std::int64_t before = 0;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    if (t == inputs.size() / 2) before = allocations_of_this_thread();
    std::copy(inputs[t][static_cast<std::size_t>(comm.rank())].begin(), inputs[t][static_cast<std::size_t>(comm.rank())].end(),
              g.begin());
    plan.run(g);
  }
  check.at_most(allocations_of_this_thread() - before, std::int64_t{0}, "allocations");
}

}  // namespace

TEST_CASE("what is not finite leaves no trace in the residual once it has travelled", "[registry]") {
  for (const AllreduceRow& row : host_rows()) {
    if (!row.sparse()) continue;
    for (const WireValues values : {WireValues::native, WireValues::bfloat16, WireValues::float16}) {
      for (const float poison : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
        if (left_out()) continue;
        RankCheck check;
        run_ranks(ranks, [&](Communicator& comm) { check_residual_stays_finite(row, values, poison, comm, check); },
                  {.machine = "node:2 rank:2"});
        REQUIRE(check.failure() == "");
      }
    }
  }
}

TEST_CASE("NaN and infinity: error, skip, propagate", "[registry]") {
  for (const AllreduceRow& row : host_rows()) {
    for (const std::string machine : machines) {
      for (const NonFinite policy : {NonFinite::error, NonFinite::skip, NonFinite::propagate}) {
        for (const std::int64_t k : {0, 20, 2000}) {
          for (const float poison : {std::numeric_limits<float>::quiet_NaN(), infinity, -infinity}) {
            INFO(row.name << " on '" << machine << "' policy " << static_cast<int>(policy) << " k " << k << " poison " << poison);
            if ((k != 20 && std::isinf(poison)) || left_out()) continue;
            RankCheck check;
            run_ranks(ranks,
                      [&](Communicator& comm) {
                        check_non_finite({row, machine, policy, k, poison}, comm, check);
                      },
                      {.machine = machine});
            REQUIRE(check.failure() == "");
          }
        }
      }
    }
  }
}

TEST_CASE("a silent peer ends in a timeout with a dump on every survivor", "[registry]") {
  for (const AllreduceRow& row : host_rows()) {
    for (const std::string machine : machines) {
      const bool sends = row.name != "dense_torus2d" || !machine.empty();
      if (!sends || left_out()) continue;
      INFO(row.name << " on '" << machine << "'");
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) { check_timeout(std::string(row.name), comm, check); },
                {.machine = machine, .fault = {.rank = 2, .after = 40}});
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("a silent peer ends in a timeout while others wait in shared memory", "[registry]") {
  for (const std::int64_t after : {40, 41, 42, 43}) {  // a rank that does not lack its messages itself awaits one that does
    INFO("silent after " << after << " messages");
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) { check_timeout("dense_torus2d", comm, check); },
              {.machine = "nodes:2,2", .fault = {.rank = 2, .after = after}});
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("all algorithms in flight at once, with opposite priorities and started in different orders", "[registry]") {
  for (const std::string machine : machines) {
    for (const std::uint64_t seed : {1, 2}) {
      if (left_out(4)) continue;
      INFO("machine '" << machine << "' seed " << seed);
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) { check_all_at_once(host_rows(), comm, check); },
                {.seed = seed, .machine = machine});
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("no heap allocation in the steady state", "[registry]") {
  AllreduceConfig config{.count = 50000};
  std::vector<std::vector<std::vector<float>>> inputs(40);
  for (int t = 0; t < 40; ++t) {
    for (int rank = 0; rank < ranks; ++rank) inputs[static_cast<std::size_t>(t)].push_back(gradient(config.count, rank, t));
  }
  const auto check_on = [&](const std::string& machine) {
    INFO(config.algorithm << " on '" << machine << "' " << config.threshold << " values " << static_cast<int>(config.wire_values));
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) { check_allocations(config, inputs, comm, check); }, {.machine = machine});
    REQUIRE(check.failure() == "");
  };
  for (const AllreduceRow& row : host_rows()) {
    config.algorithm = row.name;
    config.algorithm_parameters = parameters_for(row.name, "boundary_period=4");
    for (const std::string machine : machines) {
      if (!left_out(4)) check_on(machine);
    }
  }
  config.algorithm_parameters = "boundary_period=4";
  for (const std::string algorithm : {"oktopk", "hi_oktopk"}) {
    config.algorithm = algorithm;
    for (const std::string& threshold : all_thresholds) {
      set_threshold(config, threshold);
      for (const WireValues values : {WireValues::native, WireValues::bfloat16}) {
        config.wire_values = values;
        for (const std::string machine : {"node:2 rank:2", "switch:2 node:2 rank:1"}) {
          if (!left_out()) check_on(machine);
        }
      }
    }
  }
}

}  // namespace weir::test
