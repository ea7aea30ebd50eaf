// Every compressor with every algorithm that carries it. All ranks get the same bits in every run. With error feedback nothing is
// lost. Without it, and with NaN, the documented results are delivered.
#include <set>

#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "model/choose.hpp"
#include "plan/plan_config.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_bits.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

using compress::Carriage;
using compress::CompressorRow;

bool carries(const AllreduceRow& algorithm, Carriage carriage) {
  if (!algorithm.host_memory) return false;
  return carriage == Carriage::sparse ? algorithm.sparse() : carriage == Carriage::packed ? algorithm.packed() : algorithm.dense();
}

struct Machine {
  int ranks;
  const char* description;
};

struct Case {
  const CompressorRow* row = nullptr;
  std::string algorithm{}, parameters{};
  Machine machine{};
  Input input = Input::heavy_tailed;
  Feedback feedback = Feedback::automatic;
  double decay = 1, gain = 1;
  std::int64_t count = 6007;
  std::uint64_t order = 5;  ///< of messages

  [[nodiscard]] std::string text() const {
    return fmt::format("{} ({}) by {} on {} ranks '{}', {}, feedback {}, decay {}, gain {}, n {}", row->name, parameters, algorithm,
                       machine.ranks, machine.description, input_name(input), static_cast<int>(feedback), decay, gain, count);
  }
  [[nodiscard]] AllreduceConfig config() const {
    return {.count = count,
            .density = 0.02,
            .algorithm = algorithm,
            .compressor = std::string(row->name),
            .compressor_parameters = parameters,
            .error_feedback = feedback,
            .feedback_decay = decay,
            .feedback_gain = gain,
            .average = false};
  }
};

struct Step {
  std::vector<float> gradient, update, residual;
};
using Steps = std::vector<std::vector<Step>>;  // of ranks, of iterations

Steps run(const Case& c, int iterations = 4) {
  Steps steps(static_cast<std::size_t>(c.machine.ranks));
  run_ranks(c.machine.ranks,
            [&](Communicator& comm) {
              AllreducePlan plan(comm, c.config());
              for (int t = 0; t < iterations; ++t) {
                const std::vector<float> g = make_input<float>(c.input, c.count, comm.rank(), c.machine.ranks, t);
                std::vector<float> update = g, residual(static_cast<std::size_t>(c.count));
                plan.run(std::span<float>(update));
                std::copy(plan.residual<float>().begin(), plan.residual<float>().end(), residual.begin() + plan.residual_begin());
                steps[static_cast<std::size_t>(comm.rank())].push_back({g, update, residual});
              }
            },
            {.seed = c.order, .machine = c.machine.description});
  return steps;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void check_equal(const Steps& steps) {
  for (const auto& of_rank : steps) {
    for (std::size_t t = 0; t < of_rank.size(); ++t) {
      if (!same_bits(of_rank[t].update, steps[0][t].update)) FAIL("iteration " << t << ": ranks got different updates");
    }
  }
}

/// Checks that sum over ranks (gain gradient + decay old residual) = sum over ranks (new residual) + update, if the error feedback
/// follows this rule.
void check_conservation(const Case& c, const Steps& steps) {
  const auto n = static_cast<std::size_t>(c.count);
  for (std::size_t t = 0; t < steps[0].size(); ++t) {
    std::vector<double> before(n), after(n), magnitude(n);
    double largest = 0;
    for (const auto& of_rank : steps) {
      for (std::size_t i = 0; i < n; ++i) {
        const double given = c.gain * static_cast<double>(of_rank[t].gradient[i]);
        const double old = t == 0 ? 0 : static_cast<double>(of_rank[t - 1].residual[i]);
        before[i] += given + c.decay * old;
        after[i] += static_cast<double>(of_rank[t].residual[i]);
        magnitude[i] += std::abs(given) + 2 * std::abs(old) + std::abs(static_cast<double>(of_rank[t].residual[i]));
        largest = std::max(largest, magnitude[i]);
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double lost = std::abs(before[i] - after[i] - static_cast<double>(steps[0][t].update[i]));
      // Low-rank factors and transforms mix elements of all sizes.
      const bool mixes = c.row->carriage == Carriage::linear || c.parameters.find("dct") != std::string::npos;
      const double size = mixes ? 16 * largest : magnitude[i] + std::abs(static_cast<double>(steps[0][t].update[i]));
      if (lost > 4 * 0x1p-23 * size + 0x1p-140)
        FAIL("iteration " << t << ", element " << i << ": " << lost << " lost of " << before[i]);
    }
  }
}

void check(const Case& c) {
  if (left_out()) return;
  INFO(c.text());
  const Steps steps = run(c);
  check_equal(steps);
  Case again = c;
  again.order = 6;  // messages come in another order
  const Steps repeated = run(again);
  for (std::size_t r = 0; r < steps.size(); ++r) {
    for (std::size_t t = 0; t < steps[r].size(); ++t) {
      if (!same_bits(steps[r][t].update, repeated[r][t].update) || !same_bits(steps[r][t].residual, repeated[r][t].residual))
        FAIL("iteration " << t << ": another run gave other bits");
    }
  }
  const compress::Compressor compressor = compress::make_compressor(c.row->name, c.parameters);
  const AllreduceConfig config = c.config();
  const FeedbackRules rules = feedback_rules(config, compressor, c.machine.ranks);
  // A mean over senders is not a sum, and a velocity is not a gradient.
  const bool of_senders = c.parameters.find("mean=senders") != std::string::npos;
  if (feedback_of(config, compressor) == Feedback::residual && !rules.uses_velocity() && !of_senders) check_conservation(c, steps);
}

/// Parameters to test besides the defaults.
std::vector<std::string> parameters_of(const CompressorRow& row) {
  std::vector<std::string> list = {""};
  for (const ParameterInfo& info : row.parameters) {
    for (std::size_t word = 0; word < info.words.size(); ++word) {
      if (static_cast<double>(word) != info.value) list.push_back(fmt::format("{}={}", info.name, info.words[word]));
    }
  }
  return list;
}

std::vector<std::string> carriers(const CompressorRow& row) {
  std::vector<std::string> names;
  for (const AllreduceRow& algorithm : allreduce_registry()) {
    if (carries(algorithm, row.carriage)) names.emplace_back(algorithm.name);
  }
  return names;
}

bool may_feed_back(const CompressorRow& row) {
  return row.why_no_feedback == nullptr ||
         row.why_no_feedback(Parameters({"compressor_parameters", row.name}, row.parameters, "")).empty();
}

constexpr std::array machines = {Machine{1, ""}, Machine{3, ""}, Machine{4, "node:2 rank:2"}, Machine{5, "nodes:2,3"}};

}  // namespace

TEST_CASE("every compressor by every algorithm that carries it", "[compressors]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    for (const std::string& algorithm : carriers(*row)) {
      for (const Machine& machine : machines) check({row, algorithm, "", machine});
      for (const std::string& parameters : parameters_of(*row)) {
        if (carries(find_allreduce(algorithm), compress::make_compressor(row->name, parameters)))
          check({row, algorithm, parameters, machines[1]});
      }
    }
    const std::string algorithm = carriers(*row).front();
    for (const Input input : all_inputs()) check({row, algorithm, "", machines[2], input});
    for (const std::int64_t n : {0, 1, 2, 33, 257}) {
      for (const std::string& carrier : carriers(*row))
        check({.row = row, .algorithm = carrier, .machine = machines[1], .count = n});
    }
    check({row, carriers(*row).back(), "", {7, ""}});
    check({row, carriers(*row).back(), "", {33, "node:11 rank:3"}});
    if (!may_feed_back(*row)) continue;
    for (const std::string& carrier : carriers(*row)) {
      check({row, carrier, "", machines[3], Input::heavy_tailed, Feedback::residual});
      check({row, carrier, "", machines[1], Input::heavy_tailed, Feedback::residual, 0.95, 0.5});
      check({row, carrier, "", machines[1], Input::heavy_tailed, Feedback::none});
      if (row->momentum != nullptr) continue;
      for (const Machine& machine : {machines[2], machines[3]})  // in the second, a rank that owns no shard
        check({row, carrier, "", machine, Input::heavy_tailed, Feedback::ef21});
    }
  }
}

TEST_CASE("messages of more than ring_from_bytes in all go round in a ring", "[compressors]") {
  for (const CompressorRow* row : {&compress::block_quantise_row, &compress::lossless_row}) {  // of one size, and of any
    for (const std::string& algorithm : carriers(*row))
      check({.row = row, .algorithm = algorithm, .machine = machines[1], .count = 600'007});
  }
}

TEST_CASE("EF21: the update is the sum of what was delivered, and comes to the gradient where that stays", "[compressors]") {
  for (const char* compressor : {"top_k", "block_quantise"}) {
    const bool sparse = std::string(compressor) == "top_k";
    for (const Machine& machine : machines) {
      std::vector<double> errors;
      run_ranks(machine.ranks,
                [&](Communicator& comm) {
                  AllreducePlan plan(comm, {.count = 500,
                                            .density = 0.2,
                                            .algorithm = sparse ? "oktopk" : "packed_reduce_scatter",
                                            .compressor = compressor,
                                            .error_feedback = Feedback::ef21});
                  std::vector<double> mean(500);
                  for (int r = 0; r < machine.ranks; ++r) {
                    const auto g = make_input<float>(Input::heavy_tailed, 500, r, machine.ranks, 0);
                    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += static_cast<double>(g[i]) / machine.ranks;
                  }
                  for (int t = 0; t < 30; ++t) {
                    std::vector<float> g = make_input<float>(Input::heavy_tailed, 500, comm.rank(), machine.ranks, 0);
                    plan.run(g);
                    double error = 0, norm = 0;
                    for (std::size_t i = 0; i < mean.size(); ++i) {
                      error += std::pow(static_cast<double>(g[i]) - mean[i], 2);
                      norm += mean[i] * mean[i];
                    }
                    if (comm.rank() == 0) errors.push_back(std::sqrt(error / norm));
                  }
                },
                {.machine = machine.description});
      INFO(compressor << " on " << machine.ranks << " ranks '" << machine.description << "'");
      REQUIRE(errors.back() < 1e-5);
      REQUIRE(errors.back() < 0.1 * errors.front());
    }
  }
}

TEST_CASE("without memory and compression DGC's velocity is momentum", "[compressors]") {
  constexpr std::int64_t n = 300;
  run_ranks(2, [&](Communicator& comm) {
    AllreducePlan plan(comm, {.count = n,
                              .density = 1,
                              .algorithm = "topk_allgather",
                              .compressor = "dgc",
                              .compressor_parameters = "momentum=0.5,masking=0",
                              .error_feedback = Feedback::none,
                              .average = false});
    std::vector<float> velocity(n);
    for (int t = 0; t < 5; ++t) {
      std::vector<float> g = make_input<float>(Input::integers, n, comm.rank(), 2, t);
      for (int r = 0; r < 2; ++r) {
        const auto other = make_input<float>(Input::integers, n, r, 2, t);
        for (std::size_t i = 0; i < n; ++i) velocity[i] = (r == 0 ? 0.5F * velocity[i] : velocity[i]) + other[i];
      }
      plan.run(g);
      if (g != velocity) throw std::runtime_error("another velocity");
    }
  });
}

TEST_CASE("masking ends the velocity of what was delivered; clipping bounds the norm", "[compressors]") {
  run_ranks(1, [&](Communicator& comm) {
    AllreducePlan masked(comm, {.count = 2,
                                .k = 1,
                                .algorithm = "topk_allgather",
                                .compressor = "dgc",
                                .compressor_parameters = "momentum=0.5",
                                .average = false});
    std::vector<float> g = {4, 1};
    masked.run(g);
    if (g != std::vector<float>{4, 0}) throw std::runtime_error("first");
    g = {0, 0};
    masked.run(g);  // element 0 has no velocity left; element 1 has 0.5, and a residual of 1 + 0.5
    if (g != std::vector<float>{0, 1.5}) throw std::runtime_error("second");
    AllreducePlan clipped(comm, {.count = 2,
                                 .density = 1,
                                 .algorithm = "topk_allgather",
                                 .compressor = "dgc",
                                 .compressor_parameters = "momentum=0,clip=1",
                                 .average = false});
    g = {3, 4};
    clipped.run(g);
    if (std::abs(g[0] - 0.6F) > 1e-6F || std::abs(g[1] - 0.8F) > 1e-6F) throw std::runtime_error("clipped");
    g = {0.3F, 0.4F};
    clipped.run(g);
    if (std::abs(g[0] - 0.3F) > 1e-6F) throw std::runtime_error("not clipped");
  });
}

TEST_CASE("threshold_v sends what exceeds its value, and the k largest at most", "[compressors]") {
  run_ranks(1, [&](Communicator& comm) {
    AllreducePlan plan(
        comm, {.count = 5, .k = 3, .algorithm = "topk_allgather", .compressor = "threshold_v", .compressor_parameters = "value=2"});
    std::vector<float> g = {-3, 2, 1, 2.5F, 0};
    plan.run(g);
    if (g != std::vector<float>{-3, 0, 0, 2.5F, 0}) throw std::runtime_error("above the value");
    g = {-9, 8, 7, 6, 5};  // with what is left: -9, 10, 8, 6, 5
    plan.run(g);
    if (g != std::vector<float>{-9, 10, 8, 0, 0}) throw std::runtime_error("the largest of them");
    g = {0, 0, 0, 0, 0};
    plan.run(g);
    if (g != std::vector<float>{0, 0, 0, 6, 5}) throw std::runtime_error("left over");
  });
}

TEST_CASE("random_k: each element with the same chance, other places on each rank and in each iteration", "[compressors]") {
  constexpr std::int64_t n = 50, k = 10, runs = 4000;
  for (const bool unbiased : {false, true}) {
    std::vector<double> mean(n);
    std::set<std::vector<float>> seen;
    run_ranks(2, [&](Communicator& comm) {
      AllreducePlan plan(comm, {.count = n,
                                .k = k,
                                .algorithm = "topk_allgather",
                                .compressor = "random_k",
                                .compressor_parameters = unbiased ? "unbiased=1" : "",
                                .error_feedback = Feedback::none});
      for (int t = 0; t < runs; ++t) {
        std::vector<float> g(n, 1.0F);
        plan.run(g);
        if (comm.rank() != 0) continue;
        for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(g[i]) / runs;
        if (t < 100) seen.insert(g);
      }
    });
    REQUIRE(seen.size() == 100);
    const double right = unbiased ? 1 : 0.2, error = right * std::sqrt((5.0 - 1) / (2 * runs));
    for (const double value : mean) REQUIRE(std::abs(value - right) < 5 * error);
  }
}

TEST_CASE("a residual that decays takes nothing from gradients far smaller", "[compressors]") {
  for (const std::string compressor : {"top_k", "dgc", "block_quantise"}) {
    for (const bool skips : {false, true}) {
      RankCheck check;
      run_ranks(1, [&](Communicator& comm) {
        AllreducePlan plan(comm, {.count = 5,
                                  .k = 1,
                                  .algorithm = compressor == "block_quantise" ? "packed_allgather" : "oktopk",
                                  .compressor = compressor,
                                  .compressor_parameters = compressor == "dgc" ? "momentum=0" : "",
                                  .error_feedback = Feedback::residual,
                                  .feedback_decay = 0,
                                  .non_finite = NonFinite::skip});
        std::vector<float> g = {0, 9e8F, 9.5e8F, 9e8F, 9e8F};
        plan.run(g);
        const std::vector<float> before(plan.residual<float>().begin(), plan.residual<float>().end());
        if (skips) {  // leaves the residual, bit for bit
          g = {1, 2, std::numeric_limits<float>::infinity(), 3, 4};
          plan.run(g);
          check.that(plan.statistics().skipped, "skipped");
          check.that(same_bits<float>(plan.residual<float>(), before), "the residual after a run that was skipped");
        }
        const std::vector<float> given = {1, 1.25F, 1.5F, 1.75F, 0.5F};
        g = given;
        plan.run(g);
        if (compressor != "block_quantise") check.that(g == std::vector<float>{0, 0, 0, 1.75F, 0}, "the largest entry");
        for (std::size_t i = 0; i < g.size(); ++i)
          check.that(std::abs(g[i] + plan.residual<float>()[i] - given[i]) <= 1e-6F, "element " + std::to_string(i) + " is lost");
      });
      INFO(compressor << " skips " << skips);
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("gradients are multiplied in dense iterations, too", "[compressors]") {
  for (const auto& [algorithm, compressor] :
       {std::pair{"oktopk", "top_k"}, {"packed_allgather", "block_quantise"}, {"hitopk", "top_k"}}) {
    RankCheck check;
    run_ranks(4,
              [&](Communicator& comm) {
                AllreducePlan plan(comm, {.count = 100,
                                          .k = 100,
                                          .algorithm = algorithm,
                                          .compressor = compressor,
                                          .feedback_gain = 0.5,
                                          .dense_iterations = 1});
                for (int t = 0; t < 2; ++t) {
                  std::vector<float> g(100, 4);
                  plan.run(g);
                  for (const float x : g)
                    check.that(std::abs(x - 2) < 0.5F, "iteration " + std::to_string(t) + ": " + std::to_string(x));
                }
              },
              {.machine = "node:2 rank:2"});
    INFO(algorithm);
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("finite gradients that are infinite times n / k are refused as infinite ones are", "[compressors]") {
  for (const CompressorRow* row : {&compress::random_k_row, &compress::shared_random_k_row}) {
    for (const std::string& algorithm : carriers(*row)) {
      for (const NonFinite policy : {NonFinite::error, NonFinite::skip}) {
        for (const float value : {2.5e37F, 4e37F}) {  // times 10, or a little more of parts of the gradient: one is finite
          INFO(row->name << " by " << algorithm << ", policy " << static_cast<int>(policy) << ", " << value);
          const bool finite = value * 10 < std::numeric_limits<float>::infinity();
          std::vector<std::string> errors(3);
          std::vector<char> skipped(3), finite_after(3, 1);
          try {
            run_ranks(3, [&](Communicator& comm) {
              const auto me = static_cast<std::size_t>(comm.rank());
              AllreducePlan plan(comm, {.count = 400,
                                        .density = 0.1,
                                        .algorithm = algorithm,
                                        .compressor = std::string(row->name),
                                        .compressor_parameters = "unbiased=1",
                                        .non_finite = policy});
              for (int t = 0; t < 20; ++t) {
                std::vector<float> g(400, 1);
                if (me == 1) std::fill_n(g.begin() + 100, 20, value);
                try {
                  plan.run(g);
                } catch (const Error& error) {
                  errors[me] = error.what();
                }
                skipped[me] = plan.statistics().skipped;
                for (const float x : g) finite_after[me] = finite_after[me] && std::isfinite(x);
              }
            });
          } catch (const Error& error) {
            if (std::string(error.what()).find("unbiased=1 needs that") == std::string::npos) throw;
            continue;  // this algorithm does not deliver all
          }
          REQUIRE(errors == std::vector<std::string>(3, errors[0]));
          REQUIRE((errors[0].find("infinite times n / k (unbiased=1)") != std::string::npos) ==
                  (!finite && policy == NonFinite::error));
          REQUIRE(skipped == std::vector<char>(3, !finite && policy == NonFinite::skip));
          REQUIRE(finite_after == std::vector<char>(3, 1));
        }
      }
    }
  }
}

TEST_CASE("NaN and infinity under each policy, with every compressor", "[compressors]") {
  for (const CompressorRow* row : compress::compressor_registry()) {
    for (const std::string& algorithm : carriers(*row)) {
      for (const NonFinite policy : {NonFinite::error, NonFinite::skip, NonFinite::propagate}) {
        for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
          if (left_out()) continue;
          INFO(row->name << " by " << algorithm << ", policy " << static_cast<int>(policy) << ", " << bad);
          std::vector<std::vector<float>> results(3);
          std::vector<std::string> errors(3);
          std::vector<char> kept(3);  // no bits: threads write to it
          run_ranks(3, [&](Communicator& comm) {
            const auto me = static_cast<std::size_t>(comm.rank());
            AllreducePlan plan(
                comm,
                {.count = 400, .density = 0.1, .algorithm = algorithm, .compressor = std::string(row->name), .non_finite = policy});
            std::vector<float> g = make_input<float>(Input::heavy_tailed, 400, comm.rank(), 3, 0);
            plan.run(g);
            const std::vector<float> before(plan.residual<float>().begin(), plan.residual<float>().end());
            g = make_input<float>(Input::heavy_tailed, 400, comm.rank(), 3, 1);
            if (me == 1) g[17] = bad;
            const std::vector<float> given = g;
            try {
              plan.run(g);
            } catch (const Error& error) {
              errors[me] = error.what();
              if (!same_bits(g, given)) errors[me] += "; and the gradient was written";
            }
            results[me] = g;
            const std::span<const float> after = plan.residual<float>();
            kept[me] = true;
            for (std::size_t i = 0; i < before.size(); ++i)
              kept[me] = kept[me] && std::abs(after[i] - before[i]) <=
                                         1e-5F * (std::abs(before[i]) + (std::isfinite(given[i]) ? std::abs(given[i]) : 0) + 1);
          });
          if (policy == NonFinite::error) {
            REQUIRE(errors[0].find("NaN or infinity") != std::string::npos);
            REQUIRE(errors == std::vector<std::string>(3, errors[0]));
          } else {
            REQUIRE(errors == std::vector<std::string>(3));
            for (const auto& result : results) REQUIRE(same_bits(result, results[0]));
          }
          if (policy == NonFinite::skip) REQUIRE(results[0] == std::vector<float>(400));
          if (policy != NonFinite::propagate) REQUIRE(kept == std::vector<char>(3, 1));
        }
      }
    }
  }
}

TEST_CASE("candidates that keep velocities of other elements take turns", "[compressors]") {
  run_ranks(5,
            [](Communicator& comm) {
              AllreducePlan plan(comm, {.count = 6007, .algorithm = "auto", .trial_iterations = 1, .compressor = "signum"});
              for (int t = 0; t < 8; ++t) {
                std::vector<float> g = make_input<float>(Input::heavy_tailed, 6007, comm.rank(), 5, t);
                plan.run(g);
                for (const float x : g) {
                  if (std::abs(x) != 1) throw std::runtime_error("no vote");
                }
              }
            },
            {.machine = "nodes:2,3"});
}

}  // namespace weir::test
