// What an engine reports to observers, and texts of timeouts.
#include <algorithm>
#include <new>

#include "async/engine.hpp"
#include "async/stage_scope.hpp"
#include "base/error.hpp"

namespace weir {
namespace {

/// Returns, for example, "exchange/split_reduce".
std::string path_of(const StageScope* stage) {
  if (stage == nullptr) return std::string(stage_name(Stage::none));
  const std::string outer = stage->outer() != nullptr ? path_of(stage->outer()) + "/" : "";
  return outer + std::string(stage_name(stage->stage()));
}

}  // namespace

Clock::time_point StageScope::ended(Clock::time_point now) noexcept {
  if (now == Clock::time_point{}) now = Clock::now();
  if (is_statistic(stage_)) run_.seconds[static_cast<std::size_t>(stage_)] += std::chrono::duration<double>(now - begin_).count();
  for (Observer* const observer : engine_.detail_observers()) observer->stage(run_, stage_name(stage_), begin_, now);
  return now;
}

void Engine::add_observer(Observer& observer) {
  observers_.reserve(observers_.size() + 1);
  if (observer.wants_details()) detail_observers_.push_back(&observer);
  observers_.push_back(&observer);
}
void Engine::remove_observer(const Observer& observer) noexcept {
  std::erase(observers_, &observer);
  std::erase(detail_observers_, &observer);
}

/// Reports to observers. Runs go on even if there is no memory for it.
void Engine::report(std::string_view why) const noexcept {
  try {
    const std::string in_flight = dump();
    for (Observer* const observer : observers_) observer->report(why, in_flight);
  } catch (const std::bad_alloc&) {
  }
}

void Engine::begin(Run& run) noexcept {
  run.innermost = nullptr;
  run.failed_in = Stage::none;
  run.stage = stage_name(Stage::none);
  run.seconds = {};
  run.counted = run.boundary = run.begun = Clock::now();
  run.first_message = run.ended = {};
  run.awaits_seconds = run.awaited_seconds = 0;
  run.awaited_rank = -1;
  run.status = WEIR_OK;
  run.id = ++begun_;
  ++run.number;
  for (Observer* const observer : observers_) observer->begin(run);
}

/// Records that the run has waited for `seconds` more for its completion or its next request.
void Engine::note_wait(Run& run, double seconds) const noexcept {
  if (run.completion == nullptr && run.awaited_done >= run.awaited.size()) return;
  run.awaits_seconds += seconds;
  if (run.awaits_seconds <= run.awaited_seconds) return;
  int peer = -1;
  if (run.completion != nullptr)
    peer = run.completion->awaited_rank();
  else if (const Request request = run.awaited[run.awaited_done]; request.slot >= 0)
    peer = transport_.peer(request);
  if (peer < 0) return;
  run.awaited_rank = peer;
  run.awaited_seconds = run.awaits_seconds;
}

/// Tells observers of a wait for other ranks that has ended.
void Engine::note_reached(Run& run) const noexcept {
  run.awaits_seconds = 0;
  if (detail_observers_.empty() || !run.completion->awaits_peers()) return;
  const int rank = run.completion->awaited_rank();
  if (rank < 0 || rank == transport_.rank()) return;
  for (Observer* const observer : detail_observers_) observer->awaited(run, rank, run.moved, Clock::now());
}

std::string Engine::dump() const {
  std::string text;
  for (const Run* run : runs_) {
    text += fmt::format("  {}, run {}: {}; awaits", run->name, run->number, path_of(run->innermost));
    if (run->gate != nullptr) text += fmt::format(" '{}'", run->gate_keeper->name);
    if (run->completion != nullptr) text += " " + run->completion->describe();
    for (const Request request : run->awaited.subspan(std::min(run->awaited_done, run->awaited.size()))) {
      if (request.slot >= 0) text += fmt::format(" [{}]", transport_.describe(request));
    }
    text += '\n';
  }
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace weir
