// trials.hpp: the turns of candidates in the first runs of a plan with automatic choice: whose turn it is, and how long each has
// taken. The fastest candidate stays. The plan owns the candidates' steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/state.hpp"

namespace weir::detail {

/// Schedules and times the candidates. All of it is kept between runs. First, the first candidate has `runs` warm-up runs. Then
/// each candidate has a turn of `runs` runs. From 10 runs on, it has several turns of five runs or more, so that other load on
/// the machine hits all candidates. The last turn may be shorter. Then the fastest stays.
class Trials {
 public:
  Trials(std::size_t candidates, std::int64_t runs);
  /// Returns to the state before the first run. A decision is kept.
  void reset();
  void visit(StateVisitor& visitor);

  /// Returns true once one candidate, the best, runs for good.
  [[nodiscard]] bool decided() const { return decided_; }
  [[nodiscard]] std::size_t turn() const { return static_cast<std::size_t>(turn_); }
  /// Returns the candidate that still holds a residual for the candidate whose turn it is, if any.
  [[nodiscard]] std::optional<std::size_t> leftover() const;
  [[nodiscard]] bool needs(std::size_t candidate) const;

  /// Call before each run. Returns true if the turn has passed to another candidate: the previous one's residual is then left over.
  bool take_turns();
  void handed_on() { leftover_ = nobody; }
  /// Records a successful run before its update is applied; the time of applying is taken from the candidate's previous run.
  /// Returns true if all candidates have been tried and the best must be chosen.
  bool count_run(double seconds);
  void note_apply(double seconds) { trials_[turn()].seconds_apply = seconds; }
  /// Writes each candidate's typical time in nanoseconds to `out`, or 0 if no run of it was timed.
  void typical_nanoseconds(std::span<std::uint64_t> out);
  void choose(std::size_t best) { best_ = static_cast<std::int64_t>(best); }

 private:
  static constexpr std::int64_t nobody = -1, long_turn = 5;

  struct Trial {
    std::int64_t runs = 0;
    std::int64_t timed = 0;
    std::vector<std::uint64_t> nanoseconds{};  ///< the first `timed` hold the times of runs
    double seconds_apply = 0;                  ///< of the last run
  };

  [[nodiscard]] std::int64_t turns() const { return std::max<std::int64_t>(1, runs_ / long_turn); }
  [[nodiscard]] std::int64_t turn_length() const { return (runs_ + turns() - 1) / turns(); }
  void note_run(double seconds);

  std::int64_t runs_;  // per candidate
  std::vector<Trial> trials_;
  std::int64_t warm_runs_ = 0;  // completed before the first turn
  std::int64_t turn_ = 0;
  std::int64_t best_ = nobody;  // set once all have been tried
  std::int64_t leftover_ = nobody;
  bool decided_;
};

}  // namespace weir::detail
