// Plans: bad input, several in flight, schedules, reset, memory, traffic. test_registry.cpp tests properties of every algorithm.
#include <atomic>
#include <limits>

#include "support/algorithm_parameters.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/shared_gradients.hpp"
#include "support/thinning.hpp"
#include "support/thresholds.hpp"

namespace weir::test {
namespace {

constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

std::vector<float> gradient(std::int64_t n, int rank, int ranks, int t) {
  return make_input<float>(Input::heavy_tailed, n, rank, ranks, t);
}

/// Runs `body` on every rank. All must throw Error with this status and a text that contains `part`.
void expect_everywhere(int ranks, weir_status status, const std::string& part, const std::function<void(Communicator&)>& body,
                       const RankOptions& options = {}) {
  RankCheck check;
  run_ranks(
      ranks,
      [&](Communicator& comm) {
        const std::string where = "rank " + std::to_string(comm.rank()) + ": ";
        try {
          body(comm);
          check.that(false, where + "no error");
        } catch (const Error& error) {
          check.that(error.status() == status, where + "status " + std::to_string(error.status()) + " with text: " + error.what());
          check.that(std::string(error.what()).find(part) != std::string::npos, where + "text: " + error.what());
        }
      },
      options);
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("bad configurations are refused on all ranks, saying what would be right", "[plan]") {
  const auto refuse = [](const std::string& part, const std::function<void(AllreduceConfig&)>& spoil) {
    expect_everywhere(3, WEIR_ERR_ARGUMENT, part, [&](Communicator& comm) {
      AllreduceConfig config{.count = 100};
      if (comm.rank() == 1) spoil(config);
      AllreducePlan plan(comm, config);
    });
  };
  refuse("rank 1: count is -5: it must not be negative", [](AllreduceConfig& c) { c.count = -5; });
  refuse("density is 0: it must be above 0", [](AllreduceConfig& c) { c.density = 0; });
  refuse("density is 1.5", [](AllreduceConfig& c) { c.density = 1.5; });
  refuse("density is nan", [](AllreduceConfig& c) { c.density = std::nan(""); });
  refuse("there is no threshold 'reused': known are exact, reuse, mstopk, sampled, gaussian, sidco, redsync; did you mean 'reuse'?",
         [](AllreduceConfig& c) { c.threshold = "reused"; });
  refuse("did you mean 'dense_ring'?", [](AllreduceConfig& c) { c.algorithm = "ring"; });
  refuse("there is no threshold ''", [](AllreduceConfig& c) { c.threshold = ""; });
  const auto refuse_threshold = [&](const std::string& threshold, const std::string& parameters, const std::string& part) {
    refuse("threshold_parameters: " + part, [&](AllreduceConfig& c) {
      c.threshold = threshold;
      c.threshold_parameters = parameters;
    });
  };
  refuse_threshold("mstopk", "samplings=1001", "samplings of mstopk is '1001': it must be a whole number from 1 to 1000");
  refuse_threshold("redsync", "samplings=0", "samplings of redsync is '0': it must be a whole number from 1 to 1000");
  refuse_threshold("reuse", "period=0", "period of reuse is '0': it must be a whole number from 1 to ");
  refuse_threshold("exact", "period=3", "exact has no parameter 'period': it has none");
  refuse("wire_format is 2: it must be compact (0) or coo (1)",
         [](AllreduceConfig& c) { c.wire_format = static_cast<WireFormat>(2); });
  refuse("wire_format is -1: it must be", [](AllreduceConfig& c) { c.wire_format = static_cast<WireFormat>(-1); });
  refuse("wire_values is -1: it must be", [](AllreduceConfig& c) { c.wire_values = static_cast<WireValues>(-1); });
  refuse("wire_values is 3: it must be", [](AllreduceConfig& c) { c.wire_values = static_cast<WireValues>(3); });
  refuse("wire_values is bfloat16: it needs float32", [](AllreduceConfig& c) {
    c.wire_values = WireValues::bfloat16;
    c.type = DataType::float64;
  });
  refuse("wire_values is float16: it needs float32, and type is float64; choose native", [](AllreduceConfig& c) {
    c.wire_values = WireValues::float16;
    c.type = DataType::float64;
  });
  refuse("k is -2: it must be between 0 and the count 100, or -1", [](AllreduceConfig& c) { c.k = -2; });
  refuse("type is 4: it must be", [](AllreduceConfig& c) { c.type = static_cast<DataType>(4); });
  refuse("type is bfloat16: in host memory it must be float32 or float64", [](AllreduceConfig& c) { c.type = DataType::bfloat16; });
  refuse("memory is 2: it must be host (0) or cuda (1)", [](AllreduceConfig& c) { c.memory = static_cast<MemorySpace>(2); });
  refuse("non_finite is 3: it must be", [](AllreduceConfig& c) { c.non_finite = static_cast<NonFinite>(3); });
  refuse("dense_iterations is -1", [](AllreduceConfig& c) { c.dense_iterations = -1; });
  refuse("warmup_iterations is -1", [](AllreduceConfig& c) { c.warmup_iterations = -1; });
  refuse("no allreduce algorithm ''", [](AllreduceConfig& c) { c.algorithm = ""; });
  refuse("no allreduce algorithm 'Oktopk'", [](AllreduceConfig& c) { c.algorithm = "Oktopk"; });
  refuse("no allreduce algorithm 'xxxx", [](AllreduceConfig& c) { c.algorithm = std::string(100000, 'x'); });
  refuse("k is 101: it must be between 0 and the count 100", [](AllreduceConfig& c) { c.k = 101; });
  refuse("no allreduce algorithm 'fast': known are dense_ring, dense_rabenseifner, dense_torus2d, ",
         [](AllreduceConfig& c) { c.algorithm = "fast"; });
  const auto refuse_parameters = [&](const std::string& algorithm, const std::string& parameters, const std::string& part) {
    refuse("algorithm_parameters: " + part, [&](AllreduceConfig& c) {
      c.algorithm = algorithm;
      c.algorithm_parameters = parameters;
    });
  };
  for (const char* algorithm : {"oktopk", "auto"}) {
    const std::string of = std::string(" of ") + algorithm;
    refuse_parameters(algorithm, "boundary_period=0",
                      "boundary_period" + of + " is '0': it must be a whole number from 1 to 281474976710656");
    refuse_parameters(algorithm, "balance_trigger=0.5", "balance_trigger" + of + " is '0.5': it must be a number from 1 to inf");
    refuse_parameters(algorithm, "window=0", "window" + of + " is '0': it must be a whole number from 1 to 65536");
    refuse_parameters(algorithm, "window=65537", "window" + of + " is '65537'");
    refuse_parameters(algorithm, "schedule=fast",
                      "schedule" + of + " is 'fast': it must be one of automatic, direct, phased, one_round, shared");
    refuse_parameters(algorithm, "radix=-1", "radix" + of + " is '-1': it must be a whole number from 0 to 64");
    for (const char* radix : {"1", "3"})
      refuse_parameters(algorithm, std::string("radix=") + radix,
                        std::string("radix is ") + radix + ": it must be 2, 4, 8, 16, 32 or 64, or 0 for the cheapest");
    refuse_parameters(algorithm, "radius=4",
                      std::string(algorithm) +
                          " has no parameter 'radius': it has window (4), boundary_period (64), balance_trigger (4), schedule "
                          "(automatic), radix (0)");
  }
  refuse_parameters("topk_dsa", "radix=4", "topk_dsa has no parameter 'radix': it has window (4)");
  refuse_parameters("gtopk", "window=4", "gtopk has no parameter 'window': it has none");
  for (const std::string schedule : {"phased", "one_round"}) {
    const std::string given = "algorithm_parameters: schedule is " + schedule + ": ";
    refuse(given + "it is for host memory, and memory is cuda; choose direct", [&](AllreduceConfig& c) {
      c.algorithm_parameters = "schedule=" + schedule;
      c.memory = MemorySpace::cuda;
    });
    refuse(given + "it needs wire_values native, and they are bfloat16; choose direct", [&](AllreduceConfig& c) {
      c.algorithm_parameters = "schedule=" + schedule;
      c.wire_values = WireValues::bfloat16;
    });
    refuse(given + "it needs a threshold that selects at most k entries; choose threshold exact, or schedule=direct",
           [&](AllreduceConfig& c) {
             c.algorithm_parameters = "schedule=" + schedule;
             c.threshold = "reuse";
           });
  }
  refuse("count is 4294967296: sparse algorithms take up to 2^32 - 1", [](AllreduceConfig& c) { c.count = std::int64_t{1} << 32; });
}

TEST_CASE("what automatic choice has no use for, the configuration in force leaves out", "[plan]") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 100, .k = 100, .algorithm = "auto", .algorithm_parameters = "schedule=phased,radix=4"});
    const AllreduceConfig& config = plan.config();
    check.that(config.algorithm != "auto" && config.algorithm_parameters.find("radix") == std::string::npos, config.algorithm);
    AllreducePlan again(comm, config);
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("periods, trigger and window at their bounds do what they say", "[plan]") {
  constexpr std::int64_t most = std::int64_t{1} << 48;
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    for (const std::string algorithm : {"oktopk", "topk_dsa"}) {
      AllreducePlan usual(comm, {.count = 1000, .algorithm = algorithm, .warmup_iterations = 4});
      AllreducePlan extreme(comm, {.count = 1000,
                                   .algorithm = algorithm,
                                   .algorithm_parameters = parameters_for(
                                       algorithm, "boundary_period=281474976710656,balance_trigger=inf,window=65536"),
                                   .threshold = "reuse",
                                   .threshold_parameters = "period=281474976710656",
                                   .warmup_iterations = most});
      std::vector<float> expected = gradient(1000, comm.rank(), 3, 0), g = expected;
      usual.run(expected);
      extreme.run(g);
      check.that(g == expected, algorithm + ": another update");
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("plans that disagree are refused on all ranks, naming the difference", "[plan]") {
  const auto refuse = [](const std::string& part, const std::function<void(AllreduceConfig&)>& change) {
    expect_everywhere(4, WEIR_ERR_MISMATCH, part, [&](Communicator& comm) {
      AllreduceConfig config{.count = 100};
      if (comm.rank() == 2) change(config);
      AllreducePlan plan(comm, config);
    });
  };
  refuse("disagree about count: rank 0 has 100, rank 2 has 99", [](AllreduceConfig& c) { c.count = 99; });
  refuse("disagree about type", [](AllreduceConfig& c) { c.type = DataType::float64; });
  refuse("disagree about k (from density): rank 0 has 1, rank 2 has 2", [](AllreduceConfig& c) { c.density = 0.02; });
  refuse("disagree about algorithm: rank 0 has 'oktopk', rank 2 has 'dense_ring'",
         [](AllreduceConfig& c) { c.algorithm = "dense_ring"; });
  refuse("disagree about threshold: rank 0 has 'exact', rank 2 has 'mstopk samplings=30'",
         [](AllreduceConfig& c) { c.threshold = "mstopk"; });
  refuse("disagree about algorithm: rank 0 has 'oktopk', rank 2 has 'oktopk window=8,schedule=direct'",
         [](AllreduceConfig& c) { c.algorithm_parameters = "schedule=direct, window=8"; });
  refuse("disagree about threshold: rank 0 has 'exact', rank 2 has 'reuse period=31'", [](AllreduceConfig& c) {
    c.threshold = "reuse";
    c.threshold_parameters = "period=31";
  });
  refuse("disagree about wire_format", [](AllreduceConfig& c) { c.wire_format = WireFormat::coo; });
  refuse("disagree about wire_values", [](AllreduceConfig& c) { c.wire_values = WireValues::bfloat16; });
  refuse("disagree about average", [](AllreduceConfig& c) { c.average = false; });
}

TEST_CASE("bad calls are errors on every rank alike, and the plan stays usable", "[plan]") {
  for (const std::string algorithm : {"oktopk", "dense_ring"}) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      const std::int64_t n = 1000;
      AllreducePlan plan(comm, {.count = n, .algorithm = algorithm});
      const auto bad_call = [&](const std::string& part, const std::function<void(std::vector<float>&)>& call) {
        std::vector<float> g = gradient(n, comm.rank(), 3, 0);
        try {
          if (comm.rank() == 1)
            call(g);
          else
            plan.run(g);
          check.that(false, "no error");
        } catch (const Error& error) {
          check.that(error.status() == WEIR_ERR_ARGUMENT && std::string(error.what()).find(part) != std::string::npos,
                     error.what());
        }
        g = gradient(n, comm.rank(), 3, 0);
        plan.run(g);
      };
      bad_call("rank 1 gave a null gradient; give 1000 elements of float32",
               [&](auto&) { plan.start_raw(nullptr, nullptr, n).wait(); });
      bad_call("rank 1 is not aligned", [&](auto& g) { plan.start_raw(reinterpret_cast<char*>(g.data()) + 1, nullptr, n).wait(); });
      bad_call("rank 1 gave a gradient of 10 elements; the plan takes 1000",
               [&](auto& g) { plan.run(std::span<float>(g).first(10)); });
      bad_call("rank 1 gave a gradient of another type", [&](auto&) {
        std::vector<double> other(static_cast<std::size_t>(n));
        plan.run(other);
      });
      if (algorithm == "dense_ring")
        bad_call("asked for a sparse result; dense_ring has none", [&](auto& g) { plan.run_sparse(g); });
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("two runs on one plan: the second is refused, the first goes on", "[plan]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 1000});
    const std::vector<float> g = gradient(1000, comm.rank(), 3, 0);
    Operation op = plan.start_sparse(g);
    try {
      if (!op.test()) {
        (void)plan.start_sparse(g);
        check.that(false, "no error");
      }
    } catch (const Error& error) {
      check.that(error.status() == WEIR_ERR_BUSY, error.what());
    }
    op.wait();
    check.that(plan.sparse_result<float>().indices.size() == 10, "ten entries");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("two plans on one gradient at once: the second is refused on all ranks, the first goes on", "[plan]") {
  for (const std::string algorithm : {"oktopk", "dense_ring"})
    REQUIRE(failure_of_shared_gradients(3, algorithm, [](const auto& body) { run_ranks(3, body); }) == "");
}

TEST_CASE("many NaN, more than any buffer holds", "[plan]") {
  const std::int64_t n = 20000;
  expect_everywhere(2, WEIR_ERR_NON_FINITE, "rank 0", [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = n, .k = 2});
    std::vector<float> g = gradient(n, comm.rank(), 2, 0);
    plan.run(g);
    const std::vector<float> residual(plan.residual<float>().begin(), plan.residual<float>().end());
    std::vector<float> bad(static_cast<std::size_t>(n), comm.rank() == 0 ? nan_value : 1.0F);
    try {
      plan.run(bad);
    } catch (const Error&) {
      for (std::size_t i = 0; i < residual.size(); ++i) {
        if (!(std::abs(plan.residual<float>()[i] - residual[i]) <= 1e-5F * (1 + std::abs(residual[i]))))
          throw std::runtime_error("residual lost at " + std::to_string(i));
      }
      throw;
    }
  });
}

TEST_CASE("several plans in flight, started and finished in different orders on different ranks", "[plan]") {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const int ranks = 4;
    const std::int64_t n = 3000;
    RankCheck check;
    std::vector<std::vector<std::vector<float>>> results(ranks);
    run_ranks(ranks,
              [&](Communicator& comm) {
                std::vector<AllreducePlan> plans;
                for (int p = 0; p < 4; ++p)
                  plans.emplace_back(comm, AllreduceConfig{.count = n + p,
                                                           .algorithm = p == 2 ? "dense_ring" : "oktopk",
                                                           .priority = p == comm.rank() ? 5 : 0});
                std::vector<std::vector<float>> g(4), alone(4);
                for (int t = 0; t < 3; ++t) {
                  std::vector<std::optional<Operation>> ops(4);
                  for (int i = 0; i < 4; ++i) {
                    const auto p = static_cast<std::size_t>((i + comm.rank() + t) % 4);
                    g[p] = gradient(n + static_cast<std::int64_t>(p), comm.rank(), ranks, t);
                    ops[p] = plans[p].start(g[p]);
                  }
                  for (int i = 0; i < 4; ++i) ops[static_cast<std::size_t>((3 * i + comm.rank()) % 4)]->wait();
                }
                results[static_cast<std::size_t>(comm.rank())] = g;
              },
              {.seed = seed});
    for (const auto& result : results) REQUIRE(result == results[0]);
  }
}

TEST_CASE("density schedules", "[plan]") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    const std::int64_t n = 10000;
    AllreducePlan plan(comm, {.count = n, .density = 0.01, .dense_iterations = 2, .warmup_iterations = 3});
    const std::vector<std::int64_t> right = {n, n, 2500, 855, 292, 100, 100};
    for (std::size_t t = 0; t < right.size(); ++t) {
      std::vector<float> g = gradient(n, comm.rank(), 2, static_cast<int>(t));
      plan.run(g);
      check.that(plan.statistics().k == right[t],
                 "k of iteration " + std::to_string(t) + " is " + std::to_string(plan.statistics().k));
      check.that(plan.statistics().selected_global == right[t], "selected in iteration " + std::to_string(t));
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("reset makes the plan as new", "[plan]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    const std::int64_t n = 5000;
    AllreducePlan plan(comm, {.count = n});
    std::vector<std::vector<float>> first, second;
    for (auto* results : {&first, &second}) {
      for (int t = 0; t < 3; ++t) {
        results->push_back(gradient(n, comm.rank(), 3, t));
        plan.run(results->back());
      }
      plan.reset();
    }
    check.that(first == second, "same results after reset");
    check.that(plan.statistics().iteration == 0, "iteration count");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("without error feedback and without averaging", "[plan]") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 6, .k = 2, .error_feedback = Feedback::none, .average = false});
    std::vector<float> g = comm.rank() == 0 ? std::vector<float>{5, 1, 0, 0, -7, 0} : std::vector<float>{4, 0, 0, 9, 0, 1};
    plan.run(g);
    check.that(g == std::vector<float>{9, 0, 0, 9, 0, 0}, "sum of top-2 of each");
    check.that(plan.residual<float>().empty(), "no residual");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("memory of a plan stays within its bound", "[plan]") {
  RankCheck check;
  for (const int ranks : {1, 2, 4, 8, 33}) {
    std::vector<AllreduceConfig> configs{{.count = 1000000, .density = 0.1}};
    for (const std::int64_t n : {1000, 100000, 1000000}) {
      for (const double density : {0.001, 0.01, 0.1}) {
        for (const std::string& threshold : all_thresholds) {
          if (!left_out()) configs.push_back({.count = n, .density = density, .threshold = threshold});
        }
      }
    }
    run_ranks(ranks, [&](Communicator& comm) {
      for (const AllreduceConfig& config : configs) {
        AllreducePlan plan(comm, config);
        const std::int64_t n = config.count;
        const auto k = static_cast<std::int64_t>(std::llround(config.density * static_cast<double>(n)));
        check.at_most(plan.memory_bytes(), 4 * n + 8 * n / ranks + 64 * k + (1 << 20),
                      "P " + std::to_string(ranks) + " n " + std::to_string(n) + " k " + std::to_string(k));
      }
    });
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("an automatic schedule costs a megabyte at most", "[plan]") {
  RankCheck check;
  std::atomic<int> phased = 0;
  for (const int ranks : {3, 8, 13, 32, 33}) {
    const auto check_plans = [&](Communicator& comm) {
      for (const DataType type : {DataType::float32, DataType::float64}) {
        for (const std::int64_t k : {100, 700, 1900, 2880, 4500, 10000}) {
          AllreduceConfig config{.count = 1000000, .type = type, .k = k, .algorithm_parameters = "schedule=direct"};
          const std::int64_t direct = AllreducePlan(comm, config).memory_bytes();
          config.algorithm_parameters = "";
          const AllreducePlan plan(comm, config);
          if (plan.explanation().find("schedule: phased with radix ") != std::string::npos) ++phased;
          check.at_most(plan.memory_bytes(), direct + (1 << 20), "P " + std::to_string(ranks) + " k " + std::to_string(k));
        }
      }
    };
    for (const bool shared : {false, true}) run_ranks(ranks, check_plans, {.settings = {.shared_memory = shared}});
  }
  REQUIRE(check.failure() == "");
  REQUIRE(phased > 0);
}

TEST_CASE("traffic is counted by level", "[plan]") {
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, {.count = 1000, .algorithm = "dense_ring"});
              std::vector<float> g = gradient(1000, comm.rank(), 4, 0);
              plan.run(g);
              const Statistics& s = plan.statistics();
              const auto sent = [&](Level level) { return s.bytes_sent[static_cast<std::size_t>(level)]; };
              check.that(sent(Level::node) + sent(Level::system) == s.payload_bytes_sent + s.control_bytes_sent, "levels add up");
              // ring over nodes {0,1} {2,3}: ranks 0 and 2 send within their node, 1 and 3 across
              check.that(comm.rank() % 2 == 0 ? sent(Level::node) > sent(Level::system) : sent(Level::system) > sent(Level::node),
                         "levels");
            },
            {.machine = "nodes:2,2"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("compressors that pick other entries than the largest leave the threshold aside", "[plan]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    for (const std::string compressor : {"random_k", "threshold_v"}) {
      AllreduceConfig config{.count = 1000, .k = 50, .algorithm_parameters = "schedule=phased", .compressor = compressor};
      AllreducePlan exact(comm, config);
      config.threshold = "reuse";
      AllreducePlan reused(comm, config);
      check.that(reused.config().threshold == "exact", "the threshold in force");
      for (int t = 0; t < 3; ++t) {
        std::vector<float> a = gradient(1000, comm.rank(), 3, t), b = a;
        exact.run(a);
        reused.run(b);
        check.that(a == b, compressor + ": another update");
      }
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("a plan says which threshold is in force, and counts 0 of what other algorithms count", "[plan]") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = 100, .threshold = "reuse"});
    check.that(plan.config().threshold_parameters == "period=32", plan.config().threshold_parameters);
    check.that(plan.explanation().find("threshold: reuse period=32\n") != std::string::npos, plan.explanation());
    const AllreducePlan dense(comm, {.count = 100, .algorithm = "dense_ring"});
    check.that(dense.counter("rethresholded") == 0 && dense.counter("recut") == 0, "counters of a dense plan");
    const AllreducePlan gaussian(comm, {.count = 100, .algorithm = "gaussiank", .threshold = "reuse"});
    check.that(gaussian.config().threshold == "gaussian", gaussian.config().threshold);
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
