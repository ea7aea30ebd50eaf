// Ok-Topk gives the same bits with every schedule.
#include <numeric>

#include "collectives/oktopk_schedules.hpp"
#include "kernels/kernels.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_bits.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr int test_tag = 1000;

template <class T>
struct Selection {
  std::vector<std::uint32_t> indices;
  std::vector<T> values;
};

/// Returns the k largest nonzero entries. Ties go to the lowest index.
template <class T>
Selection<T> largest(const std::vector<T>& x, std::int64_t k) {
  std::vector<std::uint32_t> order;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] != 0) order.push_back(static_cast<std::uint32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return std::abs(x[a]) > std::abs(x[b]); });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::sort(order.begin(), order.end());
  Selection<T> s{order, {}};
  for (const std::uint32_t i : order) s.values.push_back(x[i]);
  return s;
}

template <class T>
struct Exchange {
  SparseAllreduce<T>* algorithm;
  const Selection<T>* local;
  std::int64_t k;
  ErrorReport input_error;
  SparseOutcome<T> outcome;

  static task<void> start(Channel channel, Exchange& e) {
    const SparseVector<T> local{e.local->indices.data(), e.local->values.data(), std::ssize(e.local->indices)};
    e.outcome = co_await e.algorithm->run(channel, local, e.k, e.input_error);
  }
  void run(Communicator& comm) {
    comm.state()->run_blocking("exchange", test_tag, [this](Channel channel) { return start(channel, *this); });
  }
};

/// Memory that virtual ranks share, for one exchange.
class RanksMemory {
 public:
  RanksMemory(const ExchangeSpec& spec, std::int64_t bytes) : stride_((bytes + line - 1) / line), lines_(lines(spec.ranks)) {}
  [[nodiscard]] SharedMemory shared() { return {lines_.data()->bytes.data(), stride_ * line, stride_ * line}; }

 private:
  static constexpr std::int64_t line = 64;
  struct alignas(line) Line {
    std::array<std::byte, line> bytes;
  };
  [[nodiscard]] std::size_t lines(int ranks) const { return static_cast<std::size_t>(ranks * stride_); }

  std::int64_t stride_;
  std::vector<Line> lines_;
};

template <class T>
void compare(int ranks, std::int64_t n, std::int64_t most, WireFormat format, Input input, RankCheck& check) {
  ExchangeSpec everywhere;
  everywhere.count = n;
  everywhere.type = sizeof(T) == 4 ? DataType::float32 : DataType::float64;
  everywhere.largest_k = everywhere.largest_local = most;
  everywhere.ranks = ranks;
  everywhere.divisor = ranks;
  everywhere.wire_format = format;
  everywhere.parameters = parameters_of(find_allreduce("oktopk"), "");
  RanksMemory memory(everywhere, shared_bytes_of_oktopk(everywhere));
  run_ranks(ranks, [&](Communicator& comm) {
    ExchangeSpec spec = everywhere;
    spec.topology = &comm.state()->topology;
    std::vector<std::pair<std::string, std::unique_ptr<SparseAllreduce<T>>>> others;
    for (const int radix : {2, 4, 8}) {
      const ScheduleChoice phased{.schedule = ExchangeSchedule::phased, .radix = radix};
      others.emplace_back("radix " + std::to_string(radix), make_oktopk<T>(spec, {.up_to = {{spec.largest_k, phased}}, .why = {}}));
    }
    constexpr ScheduleChoice in_phases{.schedule = ExchangeSchedule::phased, .radix = 4};
    constexpr ScheduleChoice in_one_round{.schedule = ExchangeSchedule::one_round};
    others.emplace_back("one round", make_oktopk<T>(spec, {.up_to = {{spec.largest_k, in_one_round}}, .why = {}}));
    const auto by_k = [&](const std::string& name, ScheduleChoice few, ScheduleChoice many) {
      others.emplace_back(name, make_oktopk<T>(spec, {.up_to = {{most / 2, few}, {most, many}}, .why = {}}));
    };
    if (ranks <= 5) {
      by_k("one round, then directly", in_one_round, {});
      by_k("one round, then phases", in_one_round, in_phases);
      by_k("phases, then directly", in_phases, {});
    }
    const auto direct = make_oktopk<T>(spec, {});
    if (ranks > 1) {
      spec.node_memory = memory.shared();
      const ScheduleChoice shared{.schedule = ExchangeSchedule::shared};
      others.emplace_back("shared", make_oktopk<T>(spec, {.up_to = {{spec.largest_k, shared}}, .why = {}}));
    }
    for (int t = 0; t < 4; ++t) {
      const std::int64_t k = t == 2 ? most / 2 : most;
      const Selection<T> local = largest(compute_input<T>(input, n, comm.rank(), ranks, t), k);
      Exchange<T> right{direct.get(), &local, k, {}, {}};
      right.run(comm);
      const SparseVector<T> a = right.outcome.update;
      for (auto& [name, algorithm] : others) {
        Exchange<T> other{algorithm.get(), &local, k, {}, {}};
        other.run(comm);
        const SparseVector<T> b = other.outcome.update;
        check.that(a.count == b.count && std::equal(a.indices, a.indices + a.count, b.indices) &&
                       same_bits(std::span(a.values, static_cast<std::size_t>(a.count)),
                                 std::span(b.values, static_cast<std::size_t>(b.count))),
                   name + ", " + input_name(input) + ", P = " + std::to_string(ranks) + ", n = " + std::to_string(n) +
                       ", k = " + std::to_string(k));
      }
    }
  });
}

}  // namespace

TEMPLATE_TEST_CASE("oktopk has the same bits by every schedule", "", float, double) {
  RankCheck check;
  for (const int ranks : {1, 2, 3, 5, 7, 8, 33}) {
    for (const std::int64_t n : {0, 1, 5, 1300}) {
      for (const std::int64_t k : {std::int64_t{0}, std::int64_t{1}, n / 20, n}) {
        if (k > n || (ranks == 33 && k > 65)) continue;
        for (const Input input : all_inputs()) {
          if (left_out()) continue;
          compare<TestType>(ranks, n, k, k % 2 == 0 ? WireFormat::compact : WireFormat::coo, input, check);
        }
      }
    }
  }
  REQUIRE(check.failure().empty());
}

TEST_CASE("ranks show each other values in doubt: ties and neighbours, cut at every place") {
  constexpr std::int64_t n = 60;
  RankCheck check;
  for (const int ranks : {1, 2, 3, 5}) {
    run_ranks(ranks, [&](Communicator& comm) {
      std::vector<float> gradient(n);
      for (int i = comm.rank(); i < 40; i += ranks)
        gradient[static_cast<std::size_t>(i)] = 1 + static_cast<float>(i % 3) * 0x1p-23f;
      for (std::int64_t k = 1; k <= 45; ++k) {
        for (const std::string schedule : {"direct", "phased"}) {
          AllreducePlan one_round(comm, {.count = n, .k = k, .algorithm_parameters = "schedule=one_round"});
          AllreducePlan plan(comm, {.count = n, .k = k, .algorithm_parameters = "schedule=" + schedule});
          for (int t = 0; t < 3; ++t) {  // the first has no guess
            std::vector<float> a = gradient, b = gradient;
            one_round.run(a);
            plan.run(b);
            check.that(same_bits(std::span<const float>(a), std::span<const float>(b)),
                       fmt::format("P {} k {} {} run {}", ranks, k, schedule, t));
          }
        }
      }
    });
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("plans in one round sum in the same memory, also where larger ones are made while they are in flight") {
  RankCheck check;
  for (const int ranks : {1, 3, 4}) {
    run_ranks(ranks, [&](Communicator& comm) {
      std::vector<AllreducePlan> in_one_round, direct;
      std::vector<std::vector<float>> gradients, copies;
      std::vector<Operation> operations;
      for (std::int64_t n = 10; n <= 100000; n *= 10) {
        AllreduceConfig config{.count = n, .density = 0.1, .algorithm_parameters = "schedule=one_round"};
        in_one_round.emplace_back(comm, config);
        config.algorithm_parameters = "schedule=direct";
        direct.emplace_back(comm, config);
        gradients.push_back(make_input<float>(Input::heavy_tailed, n, comm.rank(), ranks, 0));
        copies.push_back(gradients.back());
        operations.push_back(in_one_round.back().start(gradients.back()));
      }
      for (Operation& operation : operations) operation.wait();
      for (std::size_t i = 0; i < direct.size(); ++i) {
        direct[i].run(copies[i]);
        check.that(same_bits(std::span<const float>(gradients[i]), std::span<const float>(copies[i])),
                   "P = " + std::to_string(ranks) + ", plan " + std::to_string(i));
      }
    });
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("ranks of one node share memory: entries that move, ties, runs in flight together") {
  constexpr std::int64_t n = 20000;
  RankCheck check;
  for (const int ranks : {2, 3, 5, 8}) {
    run_ranks(ranks, [&](Communicator& comm) {
      std::vector<AllreducePlan> shared, direct;
      for (const std::int64_t k : {100, 1000, 4000}) {
        shared.emplace_back(comm, AllreduceConfig{.count = n, .k = k});
        direct.emplace_back(comm, AllreduceConfig{.count = n, .k = k, .algorithm_parameters = "schedule=direct"});
      }
      for (int t = -1; t < 8; ++t) {
        std::vector<float> gradient(n);
        const std::int64_t begin = t / 2 % 2 == 0 ? 0 : 15000;  // regions of the run before are of no use
        for (std::int64_t i = begin; i < begin + 5000; ++i) {
          if (t < 0) {  // thousands of ties
            gradient[static_cast<std::size_t>(i)] = i % ranks == comm.rank() ? 1.0f : 0.0f;
            continue;
          }
          const auto hash = static_cast<std::uint32_t>((i * ranks + comm.rank()) * 2654435761 + t);
          gradient[static_cast<std::size_t>(i)] = static_cast<float>(static_cast<std::int32_t>(hash >> 20) % (t < 4 ? 7 : 3000));
        }
        std::vector<std::vector<float>> a(shared.size(), gradient), b = a;
        std::vector<Operation> operations;
        for (std::size_t i = 0; i < shared.size(); ++i) operations.push_back(shared[i].start(a[i]));
        for (Operation& operation : operations) operation.wait();
        for (std::size_t i = 0; i < shared.size(); ++i) {
          direct[i].run(b[i]);
          check.that(same_bits(std::span<const float>(a[i]), std::span<const float>(b[i])),
                     fmt::format("P = {}, plan {}, run {}", ranks, i, t));
          const Statistics s = shared[i].statistics();
          check.that(std::accumulate(s.messages_sent.begin(), s.messages_sent.end(), std::int64_t{0}) == 0, "messages");
        }
      }
    });
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("candidates of automatic choice that both share memory take turns") {
  RankCheck check;
  const int ranks = 4;
  std::vector<std::vector<float>> results(ranks);
  run_ranks(ranks, [&](Communicator& comm) {
    AllreducePlan plan(
        comm, {.count = 3000, .density = 0.02, .algorithm = "auto_sparse", .trial_iterations = 4, .compressor = "top_k|random_k"});
    for (int t = 0; t < 30; ++t) {
      std::vector<float> gradient = make_input<float>(Input::heavy_tailed, 3000, comm.rank(), ranks, t);
      plan.run(gradient);
      std::vector<float>& all = results[static_cast<std::size_t>(comm.rank())];
      all.insert(all.end(), gradient.begin(), gradient.end());
    }
  });
  for (const std::vector<float>& result : results)
    check.that(same_bits(std::span<const float>(result), std::span<const float>(results[0])), "ranks have other results");
  REQUIRE(check.failure() == "");
}

TEST_CASE("schedule shared is refused where ranks do not share memory") {
  RankCheck check;
  const auto refused = [&](Communicator& comm) {
    std::string error = "none";
    try {
      AllreducePlan(comm, {.count = 1000, .algorithm_parameters = "schedule=shared"});
    } catch (const Error& caught) {
      error = caught.what();
    }
    check.that(error.find("schedule is shared: it needs a plan with all ranks on one node") != std::string::npos, error);
  };
  run_ranks(4, refused, {.machine = "node:2 rank:2"});
  run_ranks(4, refused, {.settings = {.shared_memory = false}});
  run_ranks(4, refused, {.fault = {.shared_memory_room = 100}});
  REQUIRE(check.failure() == "");
}

TEST_CASE("a plan says why its schedule is what it is") {
  RankCheck check;
  run_ranks(6,
            [&](Communicator& comm) {
              const auto says = [&](AllreduceConfig config, const std::string& text) {
                config.count = 200000;
                const std::string explanation = AllreducePlan(comm, config).explanation();
                check.that(explanation.find(text) != std::string::npos, text + " is not in " + explanation);
              };
              says({}, "schedule: one_round\n  predicted exchange at k 2000: direct ");
              says({}, " ms, one_round ");
              says({.k = 100000}, "schedule: direct\n  predicted exchange at k 100000: direct ");
              says({.algorithm_parameters = "schedule=direct"}, "schedule: direct\n  as asked for\n");
              says({.algorithm_parameters = "schedule=phased,radix=4"}, "schedule: phased with radix 4\n  as asked for\n");
              says({.threshold = "reuse"}, "schedule: direct\n  the only one for thresholds that may select more than k entries\n");
              says({.wire_values = WireValues::bfloat16}, "schedule: direct\n  the only one for wire_values bfloat16\n");
            },
            {.machine = "nodes:2,2,2"});
  run_ranks(2, [&](Communicator& comm) {
    const std::string text = AllreducePlan(comm, {.count = 200000}).explanation();
    check.that(text.find("schedule: shared\n  all ranks are on one node and share memory\n") != std::string::npos, text);
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("while k falls, a plan changes its schedule, and delivers the same bits") {
  constexpr std::int64_t n = 200000;
  RankCheck check;
  for (const std::string algorithm : {"oktopk", "hi_oktopk"}) {
    run_ranks(
        6,
        [&](Communicator& comm) {
          AllreduceConfig config{.count = n, .k = 300, .algorithm = algorithm, .warmup_iterations = 6};
          AllreducePlan automatic(comm, config);
          config.algorithm_parameters = "schedule=direct";
          AllreducePlan direct(comm, config);
          const std::string text = automatic.explanation();
          check.that(
              text.find("schedule: one_round up to k ") != std::string::npos && text.find("direct above") != std::string::npos,
              algorithm + ": " + text);
          std::int64_t fewer = 0;
          for (int t = 0; t < 9; ++t) {
            std::vector<float> a = make_input<float>(Input::heavy_tailed, n, comm.rank(), comm.size(), t), b = a;
            automatic.run(a);
            direct.run(b);
            check.that(same_bits(std::span<const float>(a), std::span<const float>(b)), algorithm + ", run " + std::to_string(t));
            check.that(automatic.statistics().k == direct.statistics().k, "k");
            const auto messages = [](const Statistics& s) {
              return std::accumulate(s.messages_sent.begin(), s.messages_sent.end(), std::int64_t{0});
            };
            fewer += messages(automatic.statistics()) < messages(direct.statistics());
          }
          check.that(fewer >= 3 && fewer < 9, algorithm + ": runs in one round: " + std::to_string(fewer));
        },
        {.machine = "node:3 rank:2"});
  }
  REQUIRE(check.failure() == "");
}

TEST_CASE("an input error of one rank in one round: all ranks hear the largest, and nothing is delivered") {
  RankCheck check;
  ExchangeSpec spec;
  spec.count = 100;
  spec.largest_k = spec.largest_local = 3;
  spec.ranks = 5;
  spec.parameters = parameters_of(find_allreduce("oktopk"), "schedule=one_round");
  const auto check_errors = [&](SharedMemory memory, Communicator& comm) {
    ExchangeSpec mine = spec;
    mine.topology = &comm.state()->topology;
    mine.node_memory = memory;
    const auto algorithm = make_oktopk<float>(mine);
    comm.state()->agree("making an exchange", "exchange", "", [] {});  // all have made it
    const Selection<float> local{{1, 2, 3}, {1, 2, 3}};
    Exchange<float> e{algorithm.get(), &local, 3, ErrorReport::of_word(comm.rank() == 3 ? 7U : comm.rank() == 1 ? 5U : 0U), {}};
    e.run(comm);
    check.that(e.outcome.input_error == ErrorReport::of_word(7) && e.outcome.update.count == 0, "error");
    e.input_error = {};
    e.run(comm);
    check.that(!e.outcome.input_error && e.outcome.update.count == 3, "after an error");
  };
  run_ranks(5, [&](Communicator& comm) { check_errors({}, comm); });
  spec.parameters = parameters_of(find_allreduce("oktopk"), "schedule=shared");
  RanksMemory memory(spec, shared_bytes_of_oktopk(spec));
  run_ranks(5, [&](Communicator& comm) { check_errors(memory.shared(), comm); });
  REQUIRE(check.failure().empty());
}

}  // namespace weir::test
