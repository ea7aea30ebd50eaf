// fuzz_table_cases.hpp: random programs of calls on an embedding table, with what every call must give.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <weir/embedding.hpp>

#include "support/inproc_ranks.hpp"
#include "support/table_oracle.hpp"

namespace weir::test {

/// One call of all ranks.
struct TableEvent {
  enum class Kind { lookup, prefetch, update, learning_rate, export_rows, import_rows, move, remake };
  /// What the wrong rank does, if anybody: as the text of the error says.
  enum class Wrong { nothing, id, too_many, array_size, rate, range, not_ready };
  struct Range {
    std::int64_t first = 0, count = 0;
  };
  /// What a rank's statistics must say once the call has finished.
  struct Counts {
    std::int64_t tokens = 0, distinct = 0, prior = 0;
    bool prefetched = false;
  };

  Kind kind;
  Wrong wrong = Wrong::nothing;
  int wrong_rank = -1;
  std::string error{};          ///< part of what every rank must be told; empty: nothing
  double rate = 0;              ///< set, or in force for an update
  Ids ids{};                    ///< by rank
  Gradients values{};           ///< by rank: vectors or rows as they must come out, gradients or rows as they are given
  std::vector<Range> ranges{};  ///< by rank
  std::vector<Counts> counts{};
};

/// One thing that one rank does next.
struct TableAction {
  enum class Kind { start, wait, test, pause } kind;
  std::size_t event = 0;  ///< of start, wait and test
};

/// Seconds; far more than any case takes where no rank falls silent.
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
  /// Every rank's script, one line each.
  [[nodiscard]] std::string program() const;
};

[[nodiscard]] TableCase make_table_case(std::uint64_t seed);

}  // namespace weir::test
