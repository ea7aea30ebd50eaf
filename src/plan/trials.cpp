#include "plan/trials.hpp"

#include <algorithm>

namespace weir::detail {
namespace {

constexpr std::int64_t most_kept = 4096;  // times per candidate; more would not improve the median

}  // namespace

Trials::Trials(std::size_t candidates, std::int64_t runs) : runs_(runs), trials_(candidates), decided_(candidates == 1) {
  if (decided_) return;
  for (Trial& trial : trials_) trial.nanoseconds.resize(static_cast<std::size_t>(std::min(runs, most_kept)));
}

void Trials::reset() {
  if (decided_)
    handed_on();
  else
    *this = Trials(trials_.size(), runs_);
}

std::optional<std::size_t> Trials::leftover() const {
  return leftover_ == nobody ? std::nullopt : std::optional(static_cast<std::size_t>(leftover_));
}

bool Trials::needs(std::size_t candidate) const { return !decided_ || candidate == turn() || candidate == leftover(); }

bool Trials::take_turns() {
  const std::int64_t runs = trials_[turn()].runs;
  if (decided_ || leftover_ != nobody) return false;  // the last run was skipped
  if (runs == 0 || (runs % turn_length() != 0 && runs < runs_)) return false;
  decided_ = best_ != nobody;
  const std::int64_t next = decided_ ? best_ : (turn_ + 1) % static_cast<std::int64_t>(trials_.size());
  if (next == turn_) return false;
  leftover_ = std::exchange(turn_, next);
  return true;
}

bool Trials::count_run(double seconds) {
  if (warm_runs_ < runs_) {
    ++warm_runs_;
    return false;
  }
  note_run(seconds + trials_[turn()].seconds_apply);
  return best_ == nobody && std::all_of(trials_.begin(), trials_.end(), [&](const Trial& trial) { return trial.runs >= runs_; });
}

/// Times runs only in the second half of each turn. A turn begins with the last candidate's residual, or with none after a dense
/// candidate. While the residual grows fast, thresholds are hard to foresee, and selections take two passes.
void Trials::note_run(double seconds) {
  Trial& trial = trials_[turn()];
  const std::int64_t place = trial.runs % turn_length();
  ++trial.runs;
  const auto timed = static_cast<std::size_t>(trial.timed);
  if (place < turn_length() / 2 || timed == trial.nanoseconds.size()) return;
  trial.nanoseconds[timed] = static_cast<std::uint64_t>(seconds * 1e9);
  ++trial.timed;
}

/// Takes the median, so that a run that waited for something else does not count.
void Trials::typical_nanoseconds(std::span<std::uint64_t> out) {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const auto begin = trials_[i].nanoseconds.begin(), end = begin + trials_[i].timed;
    const auto middle = begin + (trials_[i].timed - 1) / 2;
    if (begin != end) std::nth_element(begin, middle, end);
    out[i] = begin != end ? *middle : 0;
  }
}

void Trials::visit(StateVisitor& visitor) {
  const auto candidates = static_cast<std::int64_t>(trials_.size());
  const auto check = [&](std::string_view name, std::int64_t x, std::int64_t least, std::int64_t most) {
    visitor.check(x >= least && x <= most, name, fmt::format("between {} and {}", least, most));
  };
  visitor.value("warm_runs", warm_runs_);
  check("warm_runs", warm_runs_, 0, runs_);
  visitor.value("turn", turn_);
  check("turn", turn_, 0, candidates - 1);
  visitor.value("best", best_);
  check("best", best_, nobody, candidates - 1);
  visitor.value("leftover", leftover_);
  check("leftover", leftover_, nobody, candidates - 1);
  visitor.check(leftover_ != turn_, "leftover", fmt::format("other than turn, {}", turn_));
  visitor.value("decided", decided_);
  visitor.check(!decided_ || best_ == turn_, "decided", "false before it is the best one's turn");
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const StateVisitor::Scope scope(visitor, fmt::format("{}", i));
    Trial& trial = trials_[i];
    visitor.value("runs", trial.runs);
    visitor.check(trial.runs >= 0, "runs", "at least 0");
    visitor.value("timed", trial.timed);
    check("timed", trial.timed, 0, static_cast<std::int64_t>(trial.nanoseconds.size()));
    visitor.values("nanoseconds", std::span(trial.nanoseconds).first(static_cast<std::size_t>(trial.timed)));
    visitor.value("seconds_apply", trial.seconds_apply);
  }
}

}  // namespace weir::detail
