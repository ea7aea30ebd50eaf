// Divided work gives every rank the same results, bit for bit, as work on its own.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <weir/optim.hpp>

#include "support/allocation_count.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"
#include "support/same_errors.hpp"

namespace weir::test {
namespace {

constexpr std::array divisions = {OperatorDivision::automatic, OperatorDivision::replicated, OperatorDivision::node,
                                  OperatorDivision::all};

struct Job {
  int ranks;
  const char* machine;
};
constexpr std::array jobs = {Job{1, ""},
                             Job{2, ""},
                             Job{3, "node:3 rank:1"},
                             Job{5, "nodes:2,3"},
                             Job{7, ""},
                             Job{8, "node:2 rank:4"},
                             Job{33, "node:11 rank:3"}};

/// Returns parts with results of odd sizes, some of them empty.
std::vector<OperatorPart> odd_parts(int count, std::int64_t largest) {
  std::vector<OperatorPart> parts;
  for (int i = 0; i < count; ++i) parts.push_back({.seconds = 1e-3 * (i % 5), .result_bytes = i % 4 == 3 ? 0 : i * 7919 % largest});
  return parts;
}

std::byte value(int part, std::int64_t i, int run) { return static_cast<std::byte>(part * 31 + i * 7 + run * 13); }

/// Returns the bytes that a part's result takes of its place.
std::int64_t size_of(const OperatorPart& part, int index, bool variable, int run) {
  return variable ? part.result_bytes * ((index + run) % 3) / 2 : part.result_bytes;
}

void check_results(const Job& job, OperatorDivision division, bool variable, const std::vector<OperatorPart>& parts) {
  RankCheck check;
  run_ranks(job.ranks,
            [&](Communicator& comm) {
              ParallelOperator op(comm, {.division = division, .variable = variable, .name = "odd"}, parts);
              std::vector<std::byte> results(static_cast<std::size_t>(op.bytes()));
              for (int run = 0; run < 3; ++run) {
                std::fill(results.begin(), results.end(), std::byte{0xee});
                int worked = 0;
                op.run(
                    [&](int part, std::span<std::byte> result) {
                      ++worked;
                      check.that(op.works_on(part), "a part of another rank");
                      const std::int64_t bytes = size_of(parts[static_cast<std::size_t>(part)], part, variable, run);
                      for (std::int64_t i = 0; i < bytes; ++i) result[static_cast<std::size_t>(i)] = value(part, i, run);
                      return bytes;
                    },
                    results);
                int mine = 0;
                for (int part = 0; part < op.size(); ++part) {
                  mine += op.works_on(part) ? 1 : 0;
                  const std::int64_t bytes = size_of(parts[static_cast<std::size_t>(part)], part, variable, run);
                  check.that(op.result_bytes(part) == bytes, "the size of a result");
                  const std::byte* const at = results.data() + op.offset(part);
                  for (std::int64_t i = 0; i < parts[static_cast<std::size_t>(part)].result_bytes; ++i)
                    check.that(at[i] == (i < bytes ? value(part, i, run) : std::byte{0xee}), "a result's bytes");
                }
                check.that(worked == mine, "calls of the body");
              }
            },
            {.machine = job.machine});
  INFO("P " << job.ranks << " '" << job.machine << "' division " << static_cast<int>(division) << (variable ? " variable" : "")
            << " parts " << parts.size());
  REQUIRE(check.failure() == "");
}

}  // namespace

TEST_CASE("every rank has all results", "[optim]") {
  for (const Job& job : jobs) {
    for (const OperatorDivision division : divisions) {
      for (const bool variable : {false, true}) {
        check_results(job, division, variable, odd_parts(0, 100));
        check_results(job, division, variable, odd_parts(1, 100));
        check_results(job, division, variable, odd_parts(23, 100));
      }
    }
  }
}

TEST_CASE("large results go round a ring", "[optim]") {
  for (const Job& job : {jobs[0], jobs[1], jobs[3], jobs[4]}) {
    for (const bool variable : {false, true}) check_results(job, OperatorDivision::all, variable, odd_parts(23, 100003));
  }
}

TEST_CASE("what a body throws on one rank, all ranks throw, and the next run is as any other", "[optim]") {
  const std::vector<OperatorPart> parts = odd_parts(23, 100);
  for (const OperatorDivision division : divisions) {
    constexpr int ranks = 6;
    SameErrors errors(ranks);
    RankCheck check;
    run_ranks(ranks,
              [&](Communicator& comm) {
                ParallelOperator op(comm, {.division = division, .name = "failing"}, parts);
                std::vector<std::byte> results(static_cast<std::size_t>(op.bytes()));
                const auto body = [&](int, std::span<std::byte> result) { return std::ssize(result); };
                op.run(body, results);
                const auto throws = [&](int part, std::span<std::byte> result) {
                  if (comm.rank() >= 3 || division == OperatorDivision::all || division == OperatorDivision::node) {
                    if (part >= 11) throw std::runtime_error("no such norm");
                  }
                  return std::ssize(result);
                };
                std::fill(results.begin(), results.end(), std::byte{0xee});
                errors.expect(comm.rank(), WEIR_ERR_INTERNAL, "no such norm", [&] { op.run(throws, results); });
                check.that(std::count(results.begin(), results.end(), std::byte{0xee}) == std::ssize(results),
                           "results are written where work has failed");
                op.run(body, results);
                errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "its body returned -1 bytes",
                              [&] { op.run([](int, std::span<std::byte>) { return std::int64_t{-1}; }, results); });
                std::vector<std::byte> few(results.size() - 1);
                errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "bytes for results",
                              [&] { op.run(body, comm.rank() == 2 ? std::span<std::byte>(few) : results); });
                op.run(body, results);
                check.that(op.statistics().runs == 6, "runs");
              },
              {.machine = "node:3 rank:2"});
    INFO("division " << static_cast<int>(division));
    REQUIRE(errors.failure() == "");
    REQUIRE(check.failure() == "");
  }
}

TEST_CASE("a body that starts its own operator is refused on all ranks", "[optim]") {
  const auto nested = [](Communicator& comm) {
    const std::vector<OperatorPart> parts(5, {.seconds = 1e-3, .result_bytes = 8});
    ParallelOperator work(comm, {.division = OperatorDivision::all, .name = "work"}, parts);
    std::vector<std::byte> results(40);
    const OperatorBody body = [](int, std::span<std::byte> result) { return std::ssize(result); };
    work.run(body, results);
    work.run(
        [&](int, std::span<std::byte> result) {
          work.run(body, results);
          return std::ssize(result);
        },
        results);
  };
  for (const int ranks : {1, 3}) REQUIRE(unlike_errors(ranks, WEIR_ERR_BUSY, "its body cannot start it again", nested) == "");
}

TEST_CASE("how work went travels with the results of all ranks, not by itself", "[optim]") {
  constexpr int ranks = 8, rounds = 3;
  RankCheck check;
  run_ranks(ranks, [&](Communicator& comm) {
    const std::vector<OperatorPart> parts(23, {.result_bytes = 16});
    ParallelOperator op(comm, {.division = OperatorDivision::all}, parts);
    std::vector<std::byte> results(static_cast<std::size_t>(op.bytes()));
    op.run([](int, std::span<std::byte> result) { return std::ssize(result); }, results);
    const auto& messages = op.statistics().messages_sent;
    check.that(std::accumulate(messages.begin(), messages.end(), std::int64_t{0}) == rounds, "messages");
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("ranks that disagree about parts are told", "[optim]") {
  constexpr int ranks = 3;
  SameErrors errors(ranks);
  run_ranks(ranks, [&](Communicator& comm) {
    std::vector<OperatorPart> parts = odd_parts(5, 100);
    if (comm.rank() == 1) parts[2].seconds = 7;
    errors.expect(comm.rank(), WEIR_ERR_MISMATCH, "disagree about its parts", [&] { ParallelOperator(comm, {}, parts); });
    parts = odd_parts(5, 100);
    if (comm.rank() == 2) parts[4].result_bytes = -1;
    errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "part 4: result_bytes is -1", [&] { ParallelOperator(comm, {}, parts); });
    parts[4] = {.seconds = -1};
    errors.expect(comm.rank(), WEIR_ERR_ARGUMENT, "part 4: seconds is -1", [&] { ParallelOperator(comm, {}, parts); });
  });
  REQUIRE(errors.failure() == "");
}

TEST_CASE("the cost functions decide whether work is divided", "[optim]") {
  RankCheck check;
  run_ranks(4,
            [&](Communicator& comm) {
              const std::vector<OperatorPart> heavy(40, {.seconds = 1e-2, .result_bytes = 8});
              const std::vector<OperatorPart> light(40, {.seconds = 1e-12, .result_bytes = 8});
              check.that(ParallelOperator(comm, {}, heavy).config().division == OperatorDivision::all, "heavy work");
              const ParallelOperator op(comm, {}, light);
              check.that(op.config().division == OperatorDivision::replicated, "light work");
              check.that(op.explanation().find("by every rank") != std::string::npos, op.explanation());
            },
            {.machine = "node:2 rank:2"});
  REQUIRE(check.failure() == "");
}

TEST_CASE("a run in the steady state allocates nothing", "[optim]") {
  RankCheck check;
  for (const bool variable : {false, true}) {
    run_ranks(4, [&](Communicator& comm) {
      const std::vector<OperatorPart> parts = odd_parts(23, 100);
      ParallelOperator op(comm, {.division = OperatorDivision::all, .variable = variable}, parts);
      std::vector<std::byte> results(static_cast<std::size_t>(op.bytes()));
      const OperatorBody body = [](int, std::span<std::byte> result) { return std::ssize(result); };
      for (int t = 0; t < 3; ++t) op.run(body, results);
      const std::int64_t before = allocations_of_this_thread();
      for (int t = 0; t < 3; ++t) op.run(body, results);
      check.that(allocations_of_this_thread() == before, "allocations");
    });
  }
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
