// Every algorithm gives the sum of a loop over maps, bit for bit, on every rank and in every form.
#include <algorithm>
#include <atomic>
#include <numeric>

#include "sums/sum_oracle.hpp"
#include "sums/sum_row.hpp"
#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/thinning.hpp"

namespace weir::test {
namespace {

constexpr std::array numbers_of_ranks = {1, 2, 3, 5, 7, 8, 33};
constexpr std::array operations = {SumOperation::sum, SumOperation::min, SumOperation::max};
constexpr std::int64_t largest_dense = 5000;

template <class T>
struct Arrays {
  std::vector<std::int64_t> wide;
  std::vector<std::int32_t> narrow;
  std::vector<T> values;

  explicit Arrays(const SumList<T>& list) {
    for (const SumEntry<T>& entry : list) {
      wide.push_back(entry.index);
      narrow.push_back(static_cast<std::int32_t>(entry.index));
      values.push_back(entry.value);
    }
  }
};

/// Runs one case in every form on this rank.
template <class T>
void check_case(RankCheck& check, Communicator& comm, SumOperation operation, const std::string& algorithm,
                const SumCase<T>& tried) {
  const std::string text = tried.text + " " + algorithm + " operation " + std::to_string(static_cast<int>(operation));
  SparseSum sum(comm, {.count = tried.count, .type = detail::sum_type_of<T>, .operation = operation, .algorithm = algorithm});
  const Arrays<T> mine(tried.input[static_cast<std::size_t>(comm.rank())]);
  const std::int64_t begin = sum.range_begin(comm.rank()), end = sum.range_begin(comm.rank() + 1);

  sum.run(SumInput::entries(mine.wide, mine.values));
  check.that(same_sum(sum.result<T>(), tried.sum, 0, tried.count), text + ": the sum");
  check.that(sum.statistics().entries_sum == static_cast<std::int64_t>(tried.sum.size()), text + ": its number of entries");
  sum.run_reduce_scatter(SumInput::entries(mine.wide, mine.values));
  check.that(same_sum(sum.result<T>(), tried.sum, begin, end), text + ": the sum in this rank's range");
  if (tried.count > largest_dense) return;

  const auto expected = [&](T before, bool adds, std::int64_t index) {
    const auto entry = tried.sum.find(index);
    if (entry == tried.sum.end()) return adds ? before : T{0};
    return adds ? combined(operation, before, entry->second) : entry->second;
  };
  for (const bool adds : {false, true}) {
    std::vector<T> whole(static_cast<std::size_t>(tried.count), T{3}), part(static_cast<std::size_t>(end - begin), T{3});
    sum.run(SumInput::entries(mine.narrow, mine.values), adds ? SumOutput::add(whole) : SumOutput::write(whole));
    for (std::int64_t i = 0; i < tried.count; ++i)
      check.that(same_value(whole[static_cast<std::size_t>(i)], expected(T{3}, adds, i)), text + ": the dense sum");
    sum.run_reduce_scatter(SumInput::entries(mine.narrow, mine.values), adds ? SumOutput::add(part) : SumOutput::write(part));
    for (std::int64_t i = begin; i < end; ++i)
      check.that(same_value(part[static_cast<std::size_t>(i - begin)], expected(T{3}, adds, i)), text + ": the dense part");
  }
}

template <class T>
void check_type() {
  for (const int ranks : numbers_of_ranks) {
    for (const SumOperation operation : operations) {
      if (left_out(3)) continue;
      const auto cases = sum_cases<T>(operation, ranks);
      const auto algorithms = algorithms_of_sums();
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        for (const SumCase<T>& tried : cases) {
          for (const std::string& algorithm : algorithms) {
            if (algorithm == "dense" && tried.count > largest_dense) continue;
            check_case(check, comm, operation, algorithm, tried);
          }
        }
      });
      REQUIRE(check.failure() == "");
    }
  }
}

/// Returns entries of one rank at `density`, ascending.
Arrays<double> spread(std::int64_t count, double density, int rank) {
  Dice dice(static_cast<std::uint64_t>(rank) + 77);
  SumList<double> list;
  for (std::int64_t i = 0; i < count; ++i) {
    if (static_cast<double>(dice.between(0, 999999)) < density * 1e6) list.push_back({i, static_cast<double>(dice.between(1, 9))});
  }
  return Arrays<double>(list);
}

/// The most bytes that `entries` entries take in `messages` messages with indices below `count`: 3 + log2(range / entries) bits an
/// index in Elias-Fano's code, a bit for each element in a bitmap, and what fills words.
double message_bound(double entries, double messages, double count) {
  if (entries == 0) return 64 * messages;
  return entries * 8 + std::min(count, entries * (3 + std::log2(std::max(1.0, count / entries)))) / 8 + 64 * messages;
}

}  // namespace

TEST_CASE("float32: every algorithm, operation and form gives the sum of maps", "[sums]") { check_type<float>(); }
TEST_CASE("float64: every algorithm, operation and form gives the sum of maps", "[sums]") { check_type<double>(); }
TEST_CASE("int32: every algorithm, operation and form gives the sum of maps", "[sums]") { check_type<std::int32_t>(); }
TEST_CASE("int64: every algorithm, operation and form gives the sum of maps", "[sums]") { check_type<std::int64_t>(); }

TEST_CASE("large arrays, of which parts are summed at a time", "[sums]") {
  constexpr std::int64_t count = 350'001;
  for (const int ranks : {2, 3, 4, 8}) {
    for (const double density : {0.003, 0.1, 0.3, 0.7}) {
      if (left_out(4)) continue;
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        const Arrays<double> mine = spread(count, density, comm.rank());
        SparseSum gathered(comm, {.count = count, .algorithm = "gather"}), sum(comm, {.count = count, .algorithm = "dense"});
        for (const bool scatters : {false, true}) {
          for (SparseSum* const each : {&gathered, &sum}) {
            if (scatters)
              each->run_reduce_scatter(SumInput::entries(mine.wide, mine.values));
            else
              each->run(SumInput::entries(mine.wide, mine.values));
          }
          const SumView<double> right = gathered.result<double>(), found = sum.result<double>();
          const std::string text = "density " + std::to_string(density) + (scatters ? ", scattered" : "");
          check.that(std::ranges::equal(right.indices, found.indices), text + ": the indices");
          check.that(std::ranges::equal(right.values, found.values), text + ": the values");
        }
      });
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("zeros of dense input are skipped, and NaN is not", "[sums]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::string& algorithm : algorithms_of_sums()) {
    for (const SumOperation operation : operations) {
      RankCheck check;
      run_ranks(3, [&](Communicator& comm) {
        SparseSum sum(comm, {.count = 5, .operation = operation, .algorithm = algorithm});
        std::vector<double> mine = {0, -0.0, 0, 0, 0};
        mine[2] = comm.rank() + 1;
        if (comm.rank() == 1) mine[4] = nan;
        if (comm.rank() == 2) mine[4] = 7;
        sum.run(SumInput::dense(mine));
        const SumView<double> view = sum.result<double>();
        const double expected = operation == SumOperation::sum ? 6 : operation == SumOperation::min ? 1 : 3;
        check.that(view.indices.size() == 2 && view.indices[0] == 2 && view.indices[1] == 4, algorithm + ": the indices");
        check.that(view.values[0] == expected && std::isnan(view.values[1]), algorithm + ": the values");
      });
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("ranks give entries or whole arrays, and the sum may overwrite what went in", "[sums]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    SparseSum sum(comm, {.count = 6, .expected_entries = 2});
    const std::vector<std::int32_t> narrow = {1, 4};
    const std::vector<std::int64_t> wide = {4, 5};
    const std::vector<double> values = {2, 3};
    std::vector<double> array = {1, 0, 0, 0, 7, 0};
    const SumInput input = comm.rank() == 0   ? SumInput::entries(narrow, values)
                           : comm.rank() == 1 ? SumInput::entries(wide, values)
                                              : SumInput::dense(array);
    sum.run(input, SumOutput::write(array));
    check.that(array == std::vector<double>{1, 2, 0, 0, 12, 3}, "the sum of three forms");
    sum.run(SumInput::dense(array), SumOutput::add(array));
    check.that(array == std::vector<double>{4, 8, 0, 0, 48, 12}, "added to what went in");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("the result has the same bits with every algorithm and in every run", "[sums]") {
  for (const int ranks : {3, 8, 13}) {
    const auto input = sum_input<float>("clustered", ranks, 200, 5);
    const auto oracle = sum_oracle(SumOperation::sum, input);
    RankCheck check;
    for (const std::uint64_t seed : {0, 1, 2}) {
      run_ranks(ranks,
                [&](Communicator& comm) {
                  const Arrays<float> mine(input[static_cast<std::size_t>(comm.rank())]);
                  for (const std::string& algorithm : algorithms_of_sums()) {
                    SparseSum sum(comm, {.count = 200, .type = SumType::float32, .algorithm = algorithm});
                    sum.run(SumInput::entries(mine.narrow, mine.values));
                    check.that(same_sum(sum.result<float>(), oracle, 0, 200), algorithm);
                  }
                },
                {.seed = seed});
    }
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("many sums are in flight at once, started in any order", "[sums]") {
  constexpr int ranks = 5, number = 6;
  std::vector<std::vector<SumList<double>>> inputs;
  std::vector<SumMap<double>> oracles;
  for (int i = 0; i < number; ++i) {
    inputs.push_back(sum_input<double>("unsorted", ranks, 1000, static_cast<std::uint64_t>(i)));
    oracles.push_back(sum_oracle(SumOperation::sum, inputs.back()));
  }
  RankCheck check;
  run_ranks(ranks,
            [&](Communicator& comm) {
              const auto algorithms = algorithms_of_sums();
              std::vector<SparseSum> all;
              for (std::size_t i = 0; i < number; ++i)
                all.emplace_back(comm, SparseSumConfig{.count = 1000, .algorithm = algorithms[i % algorithms.size()]});
              for (int round = 0; round < 3; ++round) {
                std::vector<Operation> operations_in_flight;
                for (std::size_t i = 0; i < number; ++i) {
                  const std::size_t which = (i + static_cast<std::size_t>(comm.rank())) % number;
                  const Arrays<double> mine(inputs[which][static_cast<std::size_t>(comm.rank())]);  // gone before the run has ended
                  operations_in_flight.push_back(all[which].start(SumInput::entries(mine.wide, mine.values)));
                }
                for (Operation& operation : operations_in_flight) operation.wait();
                for (std::size_t i = 0; i < number; ++i)
                  check.that(same_sum(all[i].result<double>(), oracles[i], 0, 1000), "sum " + std::to_string(i));
              }
            },
            {.seed = 9});
  REQUIRE(check.failure() == "");
}

TEST_CASE("each algorithm sends no more than its formula", "[sums]") {
  constexpr std::int64_t count = 30000;
  for (const int ranks : {2, 3, 7, 8}) {
    for (const double density : {0.0, 0.001, 0.02, 0.3, 1.0}) {
      RankCheck check;
      run_ranks(ranks, [&](Communicator& comm) {
        const Arrays<double> mine = spread(count, density, comm.rank());
        for (const std::string& algorithm : algorithms_of_sums()) {
          if (algorithm == "auto") continue;
          SparseSum sum(comm, {.count = count, .expected_entries = algorithm == "shared" ? count : 0, .algorithm = algorithm});
          sum.run(SumInput::entries(mine.wide, mine.values));
          const SparseSumStatistics& did = sum.statistics();
          const double total = static_cast<double>(did.entries_total), result = static_cast<double>(did.entries_sum);
          const double own = static_cast<double>(did.entries), all = ranks, n = count;
          double bound = 0;
          if (algorithm == "gather") bound = message_bound(total, all, n);
          if (algorithm == "split" || algorithm == "hash") bound = message_bound(own, all, n) + message_bound(result, all, n);
          if (algorithm == "doubling") bound = std::ceil(std::log2(all)) * message_bound(result, 1, n);
          if (algorithm == "blocks") {
            const double most = std::ceil(n / 256);
            bound = (std::min(most, own) + std::min(most, result) + all) * (256 * 8 + 256 / 8 + 8);
          }
          if (algorithm == "dense") bound = 2 * ((n / all + 1) * 8 + n / all / 8 + 16) * (all - 1);
          check.at_most(static_cast<double>(did.payload_bytes_sent), bound,
                        algorithm + " P " + std::to_string(ranks) + " density " + std::to_string(density));
          sum.run_reduce_scatter(SumInput::entries(mine.wide, mine.values));
          check.at_most(static_cast<double>(sum.statistics().payload_bytes_sent), bound, algorithm + " scattered");
        }
      });
      REQUIRE(check.failure() == "");
    }
  }
}

TEST_CASE("split and hash balance indices that lie in one place", "[sums]") {
  constexpr int ranks = 8;
  constexpr std::int64_t each = 4000;
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    SumList<double> list;
    Dice dice(static_cast<std::uint64_t>(comm.rank()));
    for (std::int64_t i = 0; i < each; ++i) list.push_back({1000000 + dice.between(0, 40000) * dice.between(0, 40000) / 40000, 1});
    const Arrays<double> mine(list);
    for (const char* algorithm : {"split", "hash"}) {
      const double count = 0x1p40, range = algorithm == std::string("split") ? 1e6 : count;  // in which indices are encoded
      SparseSum sum(comm, {.count = std::int64_t{1} << 40, .algorithm = algorithm});
      sum.run(SumInput::entries(mine.wide, mine.values));
      const auto& did = sum.statistics();
      // The entries of one balanced region, and the sums of the others.
      const double received = 1.3 * static_cast<double>(did.entries_total) / ranks, result = static_cast<double>(did.entries_sum);
      check.at_most(static_cast<double>(did.payload_bytes_received),
                    message_bound(received, ranks, range) + message_bound(result, ranks, range), algorithm);
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("a run allocates nothing while counts do not grow", "[sums]") {
  const auto check_machine = [](const std::string& machine, const std::string& algorithm, bool scatters) {
    RankCheck check;
    run_ranks(4,
              [&](Communicator& comm) {
                const Arrays<double> mine(sum_input<double>("unsorted", 4, 2000, 3)[static_cast<std::size_t>(comm.rank())]);
                std::vector<double> dense(2000);
                SparseSum sum(comm, {.count = 2000, .expected_entries = 300, .algorithm = algorithm});
                const auto run = [&] {
                  sum.run(SumInput::entries(mine.wide, mine.values), SumOutput::add(dense));
                  if (scatters) sum.run_reduce_scatter(SumInput::entries(mine.wide, mine.values));
                };
                for (int i = 0; i < 5; ++i) run();
                const std::int64_t before = allocations_of_this_thread(), bytes = sum.memory_bytes();
                for (int i = 0; i < 5; ++i) run();
                const std::int64_t allocations = allocations_of_this_thread() - before;
                check.that(allocations == 0, algorithm + ": " + std::to_string(allocations) + " allocations");
                check.that(sum.memory_bytes() == bytes && bytes > 0, algorithm + ": memory");
              },
              {.machine = machine});
    INFO(machine);
    REQUIRE(check.failure() == "");
  };
  for (const std::string& algorithm : algorithms_of_sums()) check_machine("rank:4", algorithm, true);
  // Between nodes, slices travel with the first message in one run after the other.
  for (const char* algorithm : {"hierarchical", "auto", "gather"}) {
    check_machine("node:2 rank:2", algorithm, false);
    check_machine("node:2 rank:2", algorithm, true);
  }
}

TEST_CASE("memory grows if a hash gives one rank all entries, and not again", "[sums]") {
  constexpr int ranks = 5;
  const std::vector<std::int64_t> indices = indices_of_one_owner(ranks);
  for (const char* algorithm : {"hash", "blocks"}) {
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      SparseSum sum(comm, {.count = 1 << 20, .expected_entries = std::ssize(indices), .algorithm = algorithm});
      const std::vector<double> values(indices.size(), comm.rank() + 1);
      const auto run = [&] {
        sum.run(SumInput::entries(indices, values));
        const SumView<double> view = sum.result<double>();
        const auto right = [](double value) { return value == 15; };
        check.that(std::equal(view.indices.begin(), view.indices.end(), indices.begin(), indices.end()), algorithm);
        check.that(std::all_of(view.values.begin(), view.values.end(), right), algorithm);
      };
      const std::int64_t promised = sum.memory_bytes();
      for (int i = 0; i < 3; ++i) run();
      const std::int64_t grown = sum.memory_bytes(), before = allocations_of_this_thread();
      for (int i = 0; i < 3; ++i) run();
      const std::int64_t allocations = allocations_of_this_thread() - before;
      check.that(grown > promised && sum.memory_bytes() == grown, std::string(algorithm) + ": memory");
      check.that(allocations == 0, std::string(algorithm) + ": allocations");
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("lists may be longer than promised", "[sums]") {
  for (const std::string& algorithm : algorithms_of_sums()) {
    RankCheck check;
    run_ranks(3, [&](Communicator& comm) {
      SparseSum sum(comm, {.count = 5000, .expected_entries = 1, .algorithm = algorithm});
      for (const std::int64_t entries : {1, 10, 1000, 20}) {
        std::vector<std::int64_t> indices(static_cast<std::size_t>(entries));
        std::iota(indices.begin(), indices.end(), comm.rank() * 100);
        sum.run(SumInput::entries(indices, std::vector<double>(indices.size(), 1)));
        check.that(std::ssize(sum.result<double>().indices) == std::max(std::min(3 * entries, entries + 200), entries),
                   "the union");
      }
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a sum that ends with a run in flight finishes it for the others, and leaves its output alone", "[sums]") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    const std::vector<double> ones(100, 1);
    for (const std::string& algorithm : algorithms_of_sums()) {
      std::vector<double> output(100, 7);
      {
        SparseSum sum(comm, {.count = 100, .algorithm = algorithm});
        Operation operation = sum.start(SumInput::dense(ones), SumOutput::write(output));
        if (comm.rank() != 1) operation.wait();
      }
      check.that(output == std::vector<double>(100, comm.rank() == 1 ? 7 : 3), algorithm);
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("dense input grows lists in the middle, and keeps what came before", "[sums]") {
  constexpr std::int64_t count = 20000;
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    SparseSum sum(comm, {.count = count, .expected_entries = 10});
    std::vector<double> input(count);
    for (std::size_t i = 3; i < input.size(); i += i < 10000 ? 2000 : 3) input[i] = static_cast<double>(i);
    sum.run(SumInput::dense(input));
    const SumView<double> view = sum.result<double>();
    std::vector<double> back(count);
    for (std::size_t i = 0; i < view.indices.size(); ++i) back[static_cast<std::size_t>(view.indices[i])] = view.values[i] / 2;
    check.that(back == input, "the sum");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("automatic choice goes by the numbers of entries", "[sums]") {
  const auto chosen_for = [](const sums::SumProblem& problem) {
    const Problem places{.ranks = problem.ranks, .nodes = problem.ranks};
    return choose_sum(model::Setting(builtin_machine(), places), problem).name;
  };
  const auto chosen = [&](int ranks, std::int64_t each, bool scatters = false) {
    return chosen_for({ranks, 1 << 22, ranks * each, each, 8, scatters});
  };
  REQUIRE((chosen(64, 1) == "gather" || chosen(64, 1) == "doubling"));
  REQUIRE(chosen(64, 40000) == "split");
  REQUIRE(chosen(64, 1 << 22) == "dense");
  REQUIRE(chosen(64, 40000, true) == "split");
  // clustered: as many entries, in few blocks
  sums::SumProblem problem{4, 1 << 22, 4 * 400000, 400000, 8, false, false, 4 * 1600, 1600};
  REQUIRE(chosen_for(problem) == "blocks");
  problem.blocks = 4 * 16384;
  problem.largest_blocks = 16384;
  REQUIRE(chosen_for(problem) == "split");
  REQUIRE(sums::expected_union(100, 4, 1e12) == 100);
  REQUIRE(std::abs(sums::expected_union(200, 2, 100) - 100) < 1e-9);
  REQUIRE(std::abs(sums::expected_union(100, 2, 100) - 75) < 1e-9);
}

TEST_CASE("split balances lists that are the same on many ranks", "[sums]") {
  constexpr std::int64_t entries = 6400;
  RankCheck check;
  run_ranks(48, [&](Communicator& comm) {
    SparseSum sum(comm, {.count = 1'000'000, .expected_entries = entries, .algorithm = "split"});
    const std::int64_t before = sum.memory_bytes();
    std::vector<std::int64_t> indices(entries);
    for (std::int64_t i = 0; i < entries; ++i) indices[static_cast<std::size_t>(i)] = 500'000 + 3 * i;
    sum.run(SumInput::entries(indices, std::vector<double>(indices.size(), 1)));
    check.that(sum.memory_bytes() == before, "no region has many more entries than its share");
    check.that(sum.result<double>().values[0] == 48, "the sum");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("rank 0 warns once of lists that are longer than promised", "[sums]") {
  static std::atomic<int> warnings;
  warnings = 0;
  set_log_function([](LogLevel, std::string_view text) { warnings += text.find("sum 'tally': a rank gave 50 entries") == 0; });
  run_ranks(3, [&](Communicator& comm) {
    SparseSum sum(comm, {.count = 5000, .expected_entries = 2, .name = "tally"});
    for (const std::int64_t entries : {50, 100, 1000}) {
      std::vector<std::int64_t> indices(static_cast<std::size_t>(entries));
      std::iota(indices.begin(), indices.end(), 0);
      sum.run(SumInput::entries(indices, std::vector<double>(indices.size(), 1)));
    }
  });
  set_log_function({});
  REQUIRE(warnings == 1);
}

}  // namespace weir::test
