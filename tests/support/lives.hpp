// lives.hpp: makes and destroys many plans and tables, one after another and at once, and measures what the process holds.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>
#include <weir/embedding.hpp>
#include <weir/weir.hpp>

#include "communicator/communicator.hpp"
#include "support/thinning.hpp"

namespace weir::test {

/// The resources that this process holds.
struct Holdings {
  std::int64_t heap = 0;      ///< bytes in use
  std::int64_t mapped = 0;    ///< bytes that may be accessed, including shared memory and what malloc keeps
  std::int64_t resident = 0;  ///< part of these that is in memory
  std::int64_t shared = 0;    ///< part of these that Weir shares with other ranks
  std::int64_t mappings = 0;  ///< number of these mappings
  std::int64_t files = 0;     ///< open files

  static Holdings now() {
    Holdings holdings;
    const struct mallinfo2 info = mallinfo2();
    holdings.heap = static_cast<std::int64_t>(info.uordblks + info.hblkhd);
    std::int64_t pages = 0, resident_pages = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident_pages;
    holdings.resident = resident_pages * sysconf(_SC_PAGESIZE);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      ++holdings.mappings;
      const std::size_t dash = line.find('-');
      const auto bytes = static_cast<std::int64_t>(std::stoull(line.substr(dash + 1), nullptr, 16) -
                                                   std::stoull(line.substr(0, dash), nullptr, 16));
      // Where threads compete for malloc, it makes another arena, and reserves 64 MiB of addresses for it.
      if (line.find(" ---p ") == std::string::npos) holdings.mapped += bytes;
      if (line.find("/dev/shm/weir-") != std::string::npos) holdings.shared += bytes;
    }
    for ([[maybe_unused]] const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) ++holdings.files;
    return holdings;
  }
};

/// Returns what `later` has more of, apart from noise of the MPI library and of malloc; empty if there is no growth.
inline std::string growth(const Holdings& before, const Holdings& later) {
  std::string text;
  const auto compare = [&](const char* what, std::int64_t old, std::int64_t now, std::int64_t noise) {
    if (now > old + noise) text += std::string(what) + " " + std::to_string(old) + " before, " + std::to_string(now) + " later; ";
  };
  compare("bytes in use", before.heap, later.heap, 1 << 19);
  compare("bytes mapped", before.mapped, later.mapped, 1 << 23);
  compare("bytes resident", before.resident, later.resident, 1 << 23);
  compare("mappings", before.mappings, later.mappings, 30);
  compare("open files", before.files, later.files, 4);
  return text;
}

/// Returns `count` divided by TEST_EVERY, at least 1.
inline int lives(int count) { return std::max(1, count / static_cast<int>(test_every())); }

/// Returns the configuration of plan i: algorithms in turn, everything delivered.
inline AllreduceConfig config_of_life(int i) {
  constexpr const char* algorithms[] = {"oktopk", "dense_mpi", "hi_oktopk", "dense_torus2d"};
  return {.count = 8 + i % 3, .density = 1, .algorithm = algorithms[i % 4], .average = false};
}

/// Returns whether one run of ones sums up to the number of ranks.
inline bool runs_right(AllreducePlan& plan, int ranks) {
  std::vector<float> ones(static_cast<std::size_t>(plan.config().count), 1);
  plan.run(ones);
  return std::all_of(ones.begin(), ones.end(), [&](float x) { return x == static_cast<float>(ranks); });
}

/// Collective. Makes, runs and destroys a plan.
inline bool live_and_die(const Communicator& comm, int i) {
  AllreducePlan plan(comm, config_of_life(i));
  return runs_right(plan, comm.size());
}

/// Collective, with no plan or table alive. Returns whether all leases of earlier ones are free again. Ranks report free leases
/// while others are made, 96 at a time.
inline bool all_leases_returned(const Communicator& comm, int plans_before) {
  for (int i = 0; i <= plans_before / 96; ++i) live_and_die(comm, i);
  const AllreducePlan last(comm, config_of_life(0));
  return comm.state()->leases.alive() == 1;
}

inline bool table_lives_and_dies(const Communicator& comm, int i) {
  constexpr const char* ways[] = {"columns", "rows", "allgather", "dense_allreduce"};
  EmbeddingConfig config;
  config.rows = 10;
  config.width = 2;
  config.largest_batch = 3;
  config.exchange = ways[i % 4];
  config.initial_range = 0;
  config.learning_rate = 1;
  config.average = false;
  EmbeddingTable table(comm, config);
  const std::vector<std::int64_t> ids = {1, 7, 1};
  std::vector<float> vectors(6);
  table.lookup(std::span<const std::int64_t>(ids), vectors).wait();
  table.update(std::vector<float>(6, -1)).wait();
  table.lookup(std::span<const std::int64_t>(ids), vectors).wait();
  const auto n = static_cast<float>(comm.size());
  return vectors == std::vector<float>{2 * n, 2 * n, n, n, 2 * n, 2 * n};
}

}  // namespace weir::test
