// Communicator::sum: one result however values are divided among ranks.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

/// Divides `fields` x `count` values among ranks at random, and returns the sums, which all ranks have.
template <class T>
std::vector<double> sums_over(int ranks, std::int64_t fields, std::int64_t count, std::uint64_t seed,
                              const RankOptions& options = {}) {
  const std::vector<T> all = make_input<T>(Input::heavy_tailed, fields * count, 0, 1, 7);
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> order(static_cast<std::size_t>(count)), ends(static_cast<std::size_t>(ranks) + 1);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  for (std::int64_t& end : ends) end = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count + 1));
  ends.front() = 0;
  ends.back() = count;
  std::sort(ends.begin(), ends.end());
  std::vector<std::vector<double>> results(static_cast<std::size_t>(ranks));
  run_ranks(
      ranks,
      [&](Communicator& comm) {
        const auto rank = static_cast<std::size_t>(comm.rank());
        std::vector<T> mine;
        for (std::int64_t field = 0; field < fields; ++field) {
          for (std::int64_t i = ends[rank]; i < ends[rank + 1]; ++i)
            mine.push_back(all[static_cast<std::size_t>(field * count + order[static_cast<std::size_t>(i)])]);
        }
        std::vector<double> sums(static_cast<std::size_t>(fields));
        comm.sum(std::span<const T>(mine), sums);
        results[rank] = sums;
      },
      options);
  for (const auto& result : results) REQUIRE(result == results[0]);
  return results[0];
}

template <class T>
void check_sums(std::int64_t fields, std::int64_t count) {
  const std::vector<double> right = sums_over<T>(1, fields, count, 1);
  const std::vector<T> all = make_input<T>(Input::heavy_tailed, fields * count, 0, 1, 7);
  for (std::int64_t field = 0; field < fields; ++field) {
    double sum = 0, magnitude = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(all[static_cast<std::size_t>(field * count + i)]);
      sum += value;
      magnitude += std::abs(value);
    }
    REQUIRE(std::abs(right[static_cast<std::size_t>(field)] - sum) <= magnitude * static_cast<double>(count) * 0x1p-53);
  }
  for (const int ranks : {2, 3, 4, 7, 16, 33}) {
    INFO(ranks << " ranks, " << fields << " sums of " << count << " values");
    const auto seed = static_cast<std::uint64_t>(ranks);
    REQUIRE(sums_over<T>(ranks, fields, count, seed) == right);
    REQUIRE(sums_over<T>(ranks, fields, count, seed, {.machine = fmt::format("node:{} rank:1", ranks)}) == right);
    REQUIRE(sums_over<T>(ranks, fields, count, seed, {.fault = {.shared_memory_room = 0}}) == right);
  }
}

}  // namespace

TEST_CASE("sums do not depend on the number of ranks", "[sum]") {
  for (const std::int64_t fields : {1, 3, 8, 9, 24, 25, 100}) {
    check_sums<float>(fields, 50);
    check_sums<double>(fields, 50);
  }
  for (const std::int64_t count : {0, 1, 2, 8, 33}) {  // ranks with no value, one and more
    check_sums<float>(9, count);
    check_sums<double>(1, count);
    check_sums<double>(25, count);
  }
  REQUIRE(sums_over<double>(130, 2, 100, 1) == sums_over<double>(1, 2, 100, 1));
  check_sums<double>(2, 30000);
}

TEST_CASE("sums do not depend on which rank has a value near the last unit", "[sum]") {
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    for (int far = 40; far <= 120; ++far) {
      const double small = std::ldexp(1.75, -far);
      const std::vector<double> all = {1, -1, small, 0}, none, first = {1, -1}, second = {small, 0};
      const bool is_first = comm.rank() == 0;
      double together = 0, apart = 0;
      comm.sum(std::span<const double>(is_first ? all : none), std::span(&together, 1));
      comm.sum(std::span<const double>(is_first ? first : second), std::span(&apart, 1));
      check.that(together == apart, "1 - 1 + 1.75 * 2^-" + std::to_string(far));
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("sums between other calls, on ranks that are late by turns", "[sum]") {
  for (const int ranks : {1, 2, 3, 7}) {
    RankCheck check;
    run_ranks(ranks, [&](Communicator& comm) {
      std::mt19937_64 random(static_cast<std::uint64_t>(comm.rank()));
      std::vector<float> gradient(64, 1), together(64);
      AllreducePlan plan(comm, {.count = 64, .algorithm = "dense_ring", .average = false});
      for (int i = 0; i < 200; ++i) {
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
        if (i % 5 == 0) together = gradient;
        std::optional<Operation> operation;
        if (i % 5 == 0) operation = plan.start(std::span<float>(together));
        const double mine = comm.rank() + i;
        double sum = 0;
        comm.sum(std::span(&mine, 1), std::span(&sum, 1));
        check.that(sum == ranks * (ranks - 1) / 2 + ranks * i, "a wrong sum in round " + std::to_string(i));
        if (operation) operation->wait();
        check.that(!operation || together[63] == static_cast<float>(ranks), "a wrong array in round " + std::to_string(i));
        if (i % 7 == 0) {
          std::array<std::byte, 1> byte{std::byte{static_cast<unsigned char>(comm.rank() == 0 ? i : 0)}};
          comm.broadcast(byte, 0);
          check.that(byte[0] == std::byte{static_cast<unsigned char>(i)}, "a wrong byte in round " + std::to_string(i));
        }
      }
    });
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a sum without one rank is an error that names it", "[sum]") {
  for (const bool shared_memory : {true, false}) {
    RankCheck check;
    const RankOptions options{.fault = {.shared_memory_room = shared_memory ? InprocFault().shared_memory_room : 0},
                              .settings = {.timeout_seconds = 120}};
    run_ranks(
        3,
        [&](Communicator& comm) {
          const double mine = 1;
          double sum = 0;
          comm.sum(std::span(&mine, 1), std::span(&sum, 1));
          if (comm.rank() == 2) return;
          set_timeout(comm, 0.2);
          std::string error = "no error";
          try {
            comm.sum(std::span(&mine, 1), std::span(&sum, 1));
          } catch (const Error& e) {
            error = e.what();
            check.that(e.status() == WEIR_ERR_TIMEOUT, "another status: " + error);
          }
          check.that(error.find("without progress") != std::string::npos, "another error: " + error);
          if (shared_memory)
            check.that(error.find("awaits rank 2 in shared memory") != std::string::npos, "it lacks the rank: " + error);
        },
        options);
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("wrong calls of sum are the same error on all ranks", "[sum]") {
  for (const int ranks : {1, 3}) {
    SameErrors errors(ranks);
    run_ranks(ranks, [&](Communicator& comm) {
      std::vector<double> values = {1, 2, 3, 4, 5, 6}, sums(4);
      const bool wrong = comm.rank() == ranks - 1;
      const auto ask_for = [&](std::size_t number) { comm.sum(std::span<const double>(values), std::span(sums).first(number)); };
      errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "there are 6 values for 4 sums: each sum takes equally many of them",
                    [&] { ask_for(wrong ? 4 : 3); });
      errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "there are 6 values and no sum to add them to",
                    [&] { ask_for(wrong ? 0 : 3); });
      if (ranks > 1)
        errors.expect(comm.rank(), WEIR_ERR_ARGUMENT,
                      "rank 0 asks for 3 sums, and rank 2 for 2: all ranks must ask for the same number",
                      [&] { ask_for(wrong ? 2 : 3); });
      comm.sum(std::span<const double>(), std::span<double>());
      ask_for(2);
      errors.check().that(sums[0] == 6 * ranks && sums[1] == 15 * ranks, "wrong sums after wrong calls");
    });
    REQUIRE(errors.failure() == "");
  }
}

}  // namespace weir::test
