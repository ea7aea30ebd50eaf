// fuzz_table_cases.hpp: random programs of calls on an embedding table, with the expected result of every call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <weir/embedding.hpp>

#include "support/inproc_ranks.hpp"
#include "support/table_oracle.hpp"

namespace weir::test {

/// A call that all ranks make.
struct TableEvent {
  enum class Kind { lookup, prefetch, update, learning_rate, export_rows, import_rows, move, remake };
  /// The mistake of the wrong rank, if there is one, in the words of the error's text.
  enum class Wrong { nothing, id, too_many, array_size, rate, range, not_ready };
  struct Range {
    std::int64_t first = 0, count = 0;
  };
  /// The expected statistics of a rank after the call.
  struct Counts {
    std::int64_t tokens = 0, distinct = 0, prior = 0;
    bool prefetched = false;
  };

  Kind kind;
  Wrong wrong = Wrong::nothing;
  int wrong_rank = -1;
  std::string error{};          ///< part of the expected error text on every rank; empty if no error is expected
  double rate = 0;              ///< the rate to set, or the one in force for an update
  Ids ids{};                    ///< by rank
  Gradients values{};           ///< by rank: the expected vectors or rows, or the given gradients or rows
  std::vector<Range> ranges{};  ///< by rank
  std::vector<Counts> counts{};
};

/// One action of one rank.
struct TableAction {
  enum class Kind { start, wait, test, pause } kind;
  std::size_t event = 0;  ///< for start, wait and test
};

/// Seconds, far more than any case takes in which no rank falls silent.
inline constexpr double usual_timeout = 20;

struct TableCase {
  EmbeddingConfig config;
  int ranks = 1;
  RankOptions options;
  int disturbed_rank = -1;  ///< calls the table with another floating-point environment
  std::vector<TableEvent> events;
  std::vector<std::vector<TableAction>> scripts;  ///< by rank

  [[nodiscard]] bool falls_silent() const { return options.fault.rank >= 0; }
  [[nodiscard]] std::string text() const;
  /// Returns the scripts, one line for each rank.
  [[nodiscard]] std::string program() const;
};

[[nodiscard]] TableCase make_table_case(std::uint64_t seed);

}  // namespace weir::test
