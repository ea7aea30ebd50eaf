#include "async/engine.hpp"

#include <algorithm>
#include <new>

#include "async/stage_scope.hpp"
#include "base/error.hpp"
#include "base/give_way.hpp"
#include "base/lost_rank.hpp"

namespace weir {
namespace {

// The time after which a run that has not moved asks whether a peer has broken off, and between such questions: one costs 1 us.
constexpr std::chrono::milliseconds listening_interval{2};
constexpr std::chrono::milliseconds longest_poll{10};  // longer gaps are the caller's computing, unless it waits
constexpr int usual_runs = 16;
constexpr std::chrono::seconds after_loss{1};  // what a lost rank has sent may still arrive
constexpr std::size_t most_notices = 32;

}  // namespace

Engine::Engine(Transport& transport, double timeout_seconds, std::chrono::nanoseconds hold_time)
    : transport_(transport),
      timeout_(timeout_seconds),
      hold_time_(hold_time),
      out_of_memory_(std::make_exception_ptr(
          Error(WEIR_ERR_MEMORY, fmt::format("rank {}: out of memory in the middle of a call", transport.rank())))) {
  expect_runs(usual_runs);
  notices_.reserve(most_notices);
}

void Engine::expect_runs(int more) {
  const std::size_t most = most_runs_ + static_cast<std::size_t>(more);
  if (runs_.capacity() < most) runs_.reserve(std::max(most, 2 * runs_.capacity()));
  most_runs_ = most;
}

void Engine::start(Run& run) noexcept {
  run.finished = false;
  run.peers_know = false;
  run.error = run.failure = nullptr;
  run.awaited = {};
  run.gate = nullptr;
  run.completion = nullptr;
  run.awaits_caller = run.receives_much = run.owner_gone = false;
  run.waited = {};
  begin(run);
  if (given_up_) {
    run.root = {};
    run.peers_know = true;
    end(run, given_up_error());
    return;
  }
  insert(run);
  run.leaf = run.root.handle();
  resume(run);
}

void Engine::refuse(Run& run, const std::exception_ptr& error) noexcept {
  run.peers_know = false;
  begin(run);
  end(run, error);
}

void Engine::give_up_in_place() noexcept {
  if (std::none_of(runs_.begin(), runs_.end(), [](const Run* run) { return run->in_place; })) return;
  given_up_ = true;
  while (!runs_.empty()) fail(*runs_.front(), given_up_error(), false);
}

/// Returns the error of runs that were in flight then, or are started later.
std::exception_ptr Engine::given_up_error() const noexcept {
  return error_of(WEIR_ERR_STATE,
                  "an exception of the caller's has ended a run in the middle of its exchange. Make a new communicator");
}

/// Returns an error; without memory for its text, out_of_memory_.
std::exception_ptr Engine::error_of(weir_status status, const char* text) const noexcept {
  try {
    return std::make_exception_ptr(Error(status, text));
  } catch (const std::bad_alloc&) {
    return out_of_memory_;
  }
}

void Engine::insert(Run& run) noexcept {
  const auto place = std::find_if(runs_.begin(), runs_.end(), [&](const Run* other) { return other->priority < run.priority; });
  runs_.insert(place, &run);
}

bool Engine::will_write(std::span<const std::byte> memory) const noexcept {
  const std::less<> before;  // std::less orders pointers into different arrays, too
  const auto writes = [&](const Run* run) {
    return !run->result.empty() && !memory.empty() && before(run->result.data(), memory.data() + memory.size()) &&
           before(memory.data(), run->result.data() + run->result.size());
  };
  return std::any_of(runs_.begin(), runs_.end(), writes) ||
         std::any_of(writers_.begin(), writers_.end(), [&](const LaterWriter* writer) { return writer->will_write(memory); });
}

void Engine::reprioritise(Run& run, int priority) {
  run.priority = priority;
  if (std::erase(runs_, &run) > 0) insert(run);
}

bool Engine::poll() noexcept {
  if (given_up_) return false;
  const Clock::time_point now = Clock::now();
  const bool moved = poll_runs(now);
  for (std::size_t i = runs_.size(); i-- > 0;) {
    if (i >= runs_.size()) continue;  // a run that ended may have ended others
    if (runs_[i]->awaits_caller || held_back(i))
      runs_[i]->counted = now;
    else
      check_deadline(*runs_[i], now);
  }
  return moved;
}

bool Engine::poll_aside() noexcept {
  if (given_up_) return false;
  aside_ = leaves_arrays_alone_ = true;
  const bool moved = poll_runs(Clock::now());
  aside_ = leaves_arrays_alone_ = false;
  return moved;
}

bool Engine::has_aside() const noexcept {
  return !given_up_ && std::any_of(runs_.begin(), runs_.end(), [](const Run* run) { return !run->awaits_caller && !run->on_gpu; });
}

bool Engine::left_to_caller(const Run& run) const noexcept { return aside_ && (run.awaits_caller || run.on_gpu); }

/// Resumes what is ready, highest priority first.
bool Engine::poll_runs(Clock::time_point now) noexcept {
  bool moved = false;
  last_poll_ = now;
  if (signals_so_far() != signals_seen_) {
    signals_seen_ = signals_so_far();
    report("a signal has asked for it");
  }
  // Go round until every run has been tried without success since the last one that was resumed.
  for (std::size_t i = 0, in_vain = 0; in_vain < runs_.size();) {
    if (i >= runs_.size()) i = 0;
    Run& run = *runs_[i];
    bool is_ready = false;
    if (!left_to_caller(run) && !held_back(i)) {
      const std::int64_t pieces_before = transport_.pieces_done();
      is_ready = ready(run);
      if (transport_.pieces_done() != pieces_before) progressed(run);
    }
    if (!is_ready) {
      ++i;
      ++in_vain;
      continue;
    }
    const int priority = run.priority;
    resume(run);
    moved = true;
    in_vain = 0;
    if (!runs_.empty() && runs_.front()->priority > priority) i = 0;  // a more urgent run that became ready meanwhile goes first
  }
  if (!moved && now - notices_received_at_ > listening_interval) receive_notices(now);
  return moved;
}

bool Engine::held_back(std::size_t index) const {
  for (std::size_t i = 0; i < index && runs_[i]->priority > runs_[index]->priority; ++i) {
    if (!runs_[i]->holds_at_once && !runs_[i]->receives_much) continue;
    if (left_to_caller(*runs_[i])) continue;
    if (runs_[i]->completion == nullptr && !runs_[i]->awaits_caller && last_poll_ - runs_[i]->moved < hold_time_) return true;
  }
  return false;
}

void Engine::progressed(Run& run) {
  run.moved = Clock::now();
  run.waited = {};
}

void Engine::drive_until(const bool& open) {
  const bool driven_before = driven_;
  while (!open) {
    poll_or_idle();
    driven_ = true;  // the time before the first poll was the caller's own work
  }
  driven_ = driven_before;
}

void Engine::drive(Run& run, Clock::time_point end) {
  const bool driven_before = driven_;
  do {
    poll_or_idle();
    driven_ = true;
  } while (!run.finished && Clock::now() < end);
  driven_ = driven_before;
}

/// A completion may know how to wait for itself, but not for messages of other runs. Nothing wakes a caller that waits for a GPU.
void Engine::idle() noexcept {
  if (runs_.size() == 1 && runs_.front()->completion != nullptr)
    runs_.front()->completion->idle();
  else if (std::any_of(runs_.begin(), runs_.end(), [](const Run* run) { return run->completion != nullptr; }))
    give_way();
  else
    transport_.idle();
}

void Engine::drive(Run& run) { drive_until(run.finished); }

void Engine::drive_to_end(Run& run) noexcept {
  run.owner_gone = true;
  leaves_arrays_alone_ = true;
  drive_until(run.finished);
  leaves_arrays_alone_ = false;
}

bool Engine::drive_all_on() noexcept {
  leaves_arrays_alone_ = true;
  const bool moved = poll();
  leaves_arrays_alone_ = false;
  const bool more = std::any_of(runs_.begin(), runs_.end(), [](const Run* run) { return !run->awaits_caller; });
  if (more && !moved) idle();
  return more;
}

bool Engine::ready(Run& run) {
  if (run.awaits_caller && leaves_arrays_alone_ && !run.owner_gone) return false;
  run.awaits_caller = false;
  if (run.gate != nullptr && !*run.gate) return false;
  run.gate = nullptr;
  try {
    if (run.completion != nullptr) {
      if (!run.completion->reached()) return false;
      note_reached(run);
    }
    for (; run.awaited_done < run.awaited.size(); ++run.awaited_done) {
      const Request request = run.awaited[run.awaited_done];
      if (request.slot < 0) continue;
      if (transport_.test(request)) {
        run.awaits_seconds = 0;
        for (Observer* const observer : detail_observers_) observer->message_done(run, request.slot);
        continue;
      }
      transport_.push(run.tag);
      return false;
    }
  } catch (...) {
    transport_.abandon(run.tag);
    run.failure = std::current_exception();
  }
  return true;
}

void Engine::resume(Run& run) {
  {
    const FramePool::Scope scope(frames_);
    run.leaf.resume();
  }
  if (!run.root.done()) {
    run.boundary = {};
    return progressed(run);
  }
  std::exception_ptr error = run.root.error();
  run.root = {};  // gives the frame back
  end(run, error);
}

/// Ends the run with an exception at its point of suspension. `peers_know`: its peers have been notified.
void Engine::fail(Run& run, std::exception_ptr failure, bool peers_know) noexcept {
  transport_.abandon(run.tag);
  if (run.innermost != nullptr) run.failed_in = run.innermost->stage();
  run.peers_know = peers_know;
  run.gate = nullptr;
  run.awaits_caller = false;
  run.failure = std::move(failure);
  resume(run);
}

void Engine::end(Run& run, const std::exception_ptr& error) noexcept {
  std::erase(runs_, &run);
  run.error = error ? broken_off(run, error) : nullptr;
  run.status = status_of(run.error);
  if (run.ended == Clock::time_point{}) run.ended = Clock::now();
  for (Observer* const observer : observers_) observer->end(run);
  run.finished = true;
}

/// Returns a run's error for the caller. Unless all ranks have agreed on it, the run is broken, and its peers are notified.
std::exception_ptr Engine::broken_off(Run& run, const std::exception_ptr& error) noexcept {
  Notice notice{};
  notice.tag = run.tag;
  notice.number = run.number;
  try {
    std::string text;
    try {
      std::rethrow_exception(error);
    } catch (const AgreedError& agreed) {
      run.broken = agreed.gives_up();
      return error;
    } catch (const Error& ours) {
      notice.status = ours.status();
      text = run.peers_know ? ours.what() : fmt::format("'{}', rank {}: {}", run.name, transport_.rank(), ours.what());
    } catch (const std::bad_alloc&) {
      notice.status = WEIR_ERR_MEMORY;
      text = fmt::format("'{}', rank {}: out of memory in the middle of a call", run.name, transport_.rank());
    } catch (const std::exception& other) {
      notice.status = WEIR_ERR_INTERNAL;
      text = fmt::format("'{}', rank {}: {}", run.name, transport_.rank(), other.what());
    }
    notice.set_text(text);
    if (!run.peers_know) report(text);
    if (run.in_place) text += "; the network may still write to the gradient: keep its memory until the process ends";
    run.error = std::make_exception_ptr(Error(static_cast<weir_status>(notice.status), text));
  } catch (...) {  // no memory for the text
    notice.status = WEIR_ERR_MEMORY;
    fmt::format_to_n(notice.text.data(), notice.text.size() - 1, "'{}', rank {}: out of memory in the middle of a call", run.name,
                     transport_.rank());
    run.error = out_of_memory_;
  }
  run.broken = true;
  transport_.abandon(run.tag);
  if (!run.peers_know) transport_.notify(notice);
  return run.error;
}

void Engine::check_deadline(Run& run, Clock::time_point now) noexcept {
  // A caller that computes for long between two polls has not been waiting: a gap counts for a tenth of the deadline at most.
  const std::chrono::duration<double> gap = now - run.counted;
  if (driven_ || gap < longest_poll) note_wait(run, gap.count());
  run.waited += std::min<std::chrono::duration<double>>(now - run.counted, timeout_ / 10);
  run.counted = std::max(run.counted, now);
  // The run that a gate waits for has a deadline of its own, unless it has finished.
  if (run.gate != nullptr && !run.gate_keeper->finished) run.waited = std::min(run.waited, run.gate_keeper->waited);
  const char* const lost = run.waited < timeout_ && run.waited < after_loss ? nullptr : lost_rank();
  if (run.waited < timeout_ && lost == nullptr) return;
  Notice notice{};
  notice.tag = run.tag;
  notice.number = run.number;
  notice.status = lost != nullptr ? WEIR_ERR_TRANSPORT : WEIR_ERR_TIMEOUT;
  std::exception_ptr timeout = out_of_memory_;
  try {
    const std::string text = fmt::format("rank {} waited {:.1f} s without progress{}{}; in flight:\n{}", transport_.rank(),
                                         run.waited.count(), lost != nullptr ? ", and " : "", lost != nullptr ? lost : "", dump());
    notice.set_text(text);
    report(text);
    timeout = std::make_exception_ptr(Error(static_cast<weir_status>(notice.status), text));
  } catch (const std::bad_alloc&) {
    fmt::format_to_n(notice.text.data(), notice.text.size() - 1, "rank {} waited {:.1f} s without progress", transport_.rank(),
                     run.waited.count());
  }
  fail(run, std::move(timeout), true);
  transport_.notify(notice);
}

/// Ends runs that a peer has broken. One that still moves has all that it needs, and is left alone.
void Engine::receive_notices(Clock::time_point now) noexcept {
  notices_received_at_ = now;
  const auto stalled = [&](const Run* run) {
    const bool needs_peers = !run->awaited.empty() || (run->completion != nullptr && run->completion->awaits_peers());
    return now - run->moved > listening_interval && needs_peers && !left_to_caller(*run);
  };
  if (std::none_of(runs_.begin(), runs_.end(), stalled)) return;
  try {
    Notice notice;
    while (transport_.receive_notice(notice)) record(notice);
  } catch (const Error&) {  // runs get errors of the transport from their own messages
  }
  for (const Notice& notice : notices_) {
    const bool of_timeout = notice.status == WEIR_ERR_TIMEOUT;
    const auto broken = std::find_if(runs_.begin(), runs_.end(), [&](const Run* run) {
      return run->tag == notice.tag && run->number >= notice.number && stalled(run) && !(of_timeout && run->waited > timeout_ / 2);
    });
    if (broken == runs_.end()) continue;
    report(notice.text.data());
    fail(**broken, error_of(static_cast<weir_status>(notice.status), notice.text.data()), true);
  }
}

/// Keeps a notice. If there are too many, drops the oldest: the runs of its tag ended long ago.
void Engine::record(const Notice& notice) noexcept {
  if (std::any_of(notices_.begin(), notices_.end(), [&](const Notice& n) { return n.tag == notice.tag; })) return;
  if (notices_.size() == most_notices) notices_.erase(notices_.begin());
  notices_.push_back(notice);
}

}  // namespace weir
