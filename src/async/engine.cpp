#include "async/engine.hpp"

#include <sched.h>

#include <algorithm>

#include "base/error.hpp"

namespace weir {

void Engine::start(Run& run) {
  run.finished = false;
  run.failure = nullptr;
  run.awaited = {};
  run.gate = nullptr;
  run.happening = nullptr;
  run.waited = {};
  insert(run);
  run.leaf = run.root.handle();
  resume(run);
}

void Engine::insert(Run& run) {
  const auto place = std::find_if(runs_.begin(), runs_.end(), [&](const Run* other) { return other->priority < run.priority; });
  runs_.insert(place, &run);
}

void Engine::reprioritise(Run& run, int priority) {
  run.priority = priority;
  if (std::erase(runs_, &run) > 0) insert(run);
}

bool Engine::poll() {
  bool moved = false;
  const Clock::time_point now = Clock::now();
  // A caller that computes for long between two polls has not been waiting: no gap counts for more than a tenth of the deadline.
  const auto passed = std::min<std::chrono::duration<double>>(now - last_poll_, timeout_ / 10);
  last_poll_ = now;
  for (std::size_t i = 0; i < runs_.size();) {
    Run& run = *runs_[i];
    if (held_back(i)) {
      ++i;
      continue;
    }
    const std::int64_t pieces_before = transport_.pieces_done();
    const bool is_ready = ready(run);
    if (transport_.pieces_done() != pieces_before) got_on(run);
    if (is_ready) {
      resume(run);
      moved = true;
      i = 0;  // what became ready meanwhile and is more urgent goes first
    } else {
      ++i;
    }
  }
  for (std::size_t i = runs_.size(); i-- > 0;) {
    if (!held_back(i)) check_deadline(*runs_[i], passed);
  }
  return moved;
}

bool Engine::held_back(std::size_t index) const {
  for (std::size_t i = 0; i < index && runs_[i]->priority > runs_[index]->priority; ++i) {
    if (runs_[i]->happening == nullptr && last_poll_ - runs_[i]->moved < hold_time_) return true;
  }
  return false;
}

void Engine::got_on(Run& run) {
  run.moved = Clock::now();
  run.waited = {};
}

void Engine::drive_until(const bool& open) {
  while (!open) {
    if (!poll()) sched_yield();
  }
}

void Engine::drive(Run& run) { drive_until(run.finished); }

bool Engine::ready(Run& run) {
  if (run.gate != nullptr && !*run.gate) return false;
  run.gate = nullptr;
  try {
    if (run.happening != nullptr && !run.happening->happened()) return false;
    for (; run.awaited_done < run.awaited.size(); ++run.awaited_done) {
      const Request request = run.awaited[run.awaited_done];
      if (request.slot < 0 || transport_.test(request)) continue;
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
  run.leaf.resume();
  got_on(run);
  if (run.root.done()) {
    run.finished = true;
    std::erase(runs_, &run);
  }
}

void Engine::check_deadline(Run& run, std::chrono::duration<double> passed) {
  if (run.gate != nullptr) return;  // what it waits for has a deadline of its own
  run.waited += passed;
  if (run.waited < timeout_) return;
  const std::string text =
      fmt::format("rank {} waited {:.1f} s without progress; in flight:\n{}", transport_.rank(), run.waited.count(), dump());
  transport_.abandon(run.tag);
  run.failure = std::make_exception_ptr(Error(WEIR_ERR_TIMEOUT, text));
  resume(run);
}

std::string Engine::dump() const {
  std::string text;
  for (const Run* run : runs_) {
    text += fmt::format("  {}: {}; awaits", run->name, run->step);
    if (run->gate != nullptr) text += " another of these";
    if (run->happening != nullptr) text += " the GPU";
    for (const Request request : run->awaited.subspan(std::min(run->awaited_done, run->awaited.size()))) {
      if (request.slot >= 0) text += fmt::format(" [{}]", transport_.describe(request));
    }
    text += '\n';
  }
  return text;
}

}  // namespace weir
