// trials.hpp: candidates of automatic choice take turns in a plan's first runs, until the fastest stays. Whose turn it is, and how
// long each has taken; their steps are the plan's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/state.hpp"

namespace weir::detail {

/// All of it lives on. The first candidate has `runs` runs that only warm up, then they take turns of a few runs until each has had
/// as many, so that what the machine does meanwhile hits all alike; then the fastest stays.
class Trials {
 public:
  Trials(std::size_t candidates, std::int64_t runs);
  /// As before the first run. What has been decided stays.
  void reset();
  void visit(StateVisitor& visitor);

  /// One candidate, the best, runs for good.
  [[nodiscard]] bool decided() const { return decided_; }
  [[nodiscard]] std::size_t turn() const { return static_cast<std::size_t>(turn_); }
  /// Whose residual has not been handed on to the candidate whose turn it is.
  [[nodiscard]] std::optional<std::size_t> leftover() const;
  [[nodiscard]] bool needs(std::size_t candidate) const;

  /// Before a run. True where it is another candidate's turn than in the last one: the last one's residual is left over.
  bool take_turns();
  void handed_on() { leftover_ = nobody; }
  /// A run without error, before its update is applied, which takes as long as the candidate's last time. True where all have been
  /// tried, and the best must be chosen.
  bool count_run(double seconds);
  void note_apply(double seconds) { trials_[turn()].seconds_apply = seconds; }
  /// Writes each candidate's typical time in nanoseconds to `out`; 0 where no run was timed.
  void typical_nanoseconds(std::span<std::uint64_t> out);
  void choose(std::size_t best) { best_ = static_cast<std::int64_t>(best); }

 private:
  static constexpr std::int64_t nobody = -1;

  struct Trial {
    std::int64_t runs = 0;
    std::int64_t timed = 0;
    std::vector<std::uint64_t> nanoseconds{};  ///< of `timed` runs, and room for more
    double seconds_apply = 0;                  ///< in the last one
  };

  [[nodiscard]] std::int64_t turn_length() const { return runs_ < 8 ? runs_ : 4; }
  void note_run(double seconds);

  std::int64_t runs_;  // of each
  std::vector<Trial> trials_;
  std::int64_t warm_runs_ = 0;  // before the first turn
  std::int64_t turn_ = 0;
  std::int64_t best_ = nobody;  // once all have been tried
  std::int64_t leftover_ = nobody;
  bool decided_;
};

}  // namespace weir::detail
