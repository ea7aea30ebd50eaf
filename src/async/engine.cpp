#include "async/engine.hpp"

#include <sched.h>

#include <algorithm>

#include "base/error.hpp"

namespace weir {

void Engine::start(Run& run) {
  run.finished = false;
  run.failure = nullptr;
  run.awaited = {};
  run.waited = {};
  const auto place = std::find_if(runs_.begin(), runs_.end(), [&](const Run* other) { return other->priority < run.priority; });
  runs_.insert(place, &run);
  run.leaf = run.root.handle();
  resume(run);
}

bool Engine::poll() {
  bool moved = false;
  for (std::size_t i = 0; i < runs_.size();) {
    if (ready(*runs_[i])) {
      resume(*runs_[i]);
      moved = true;
      i = 0;  // what became ready meanwhile and is more urgent goes first
    } else {
      ++i;
    }
  }
  // A caller that computes for long between two polls has not been waiting: no gap counts for more than a tenth of the deadline.
  const Clock::time_point now = Clock::now();
  const auto passed = std::min<std::chrono::duration<double>>(now - last_poll_, timeout_ / 10);
  last_poll_ = now;
  for (std::size_t i = runs_.size(); i-- > 0;) check_deadline(*runs_[i], passed);
  return moved;
}

void Engine::drive(Run& run) {
  while (!run.finished) {
    if (!poll()) sched_yield();
  }
}

bool Engine::ready(Run& run) {
  while (run.awaited_done < run.awaited.size()) {
    try {
      const Request request = run.awaited[run.awaited_done];
      if (request.slot >= 0 && !transport_.test(request)) return false;
    } catch (...) {
      transport_.abandon(run.tag);
      run.failure = std::current_exception();
      return true;
    }
    ++run.awaited_done;
  }
  return true;
}

void Engine::resume(Run& run) {
  run.leaf.resume();
  run.waited = {};
  if (run.root.done()) {
    run.finished = true;
    std::erase(runs_, &run);
  }
}

void Engine::check_deadline(Run& run, std::chrono::duration<double> passed) {
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
    for (const Request request : run->awaited.subspan(std::min(run->awaited_done, run->awaited.size()))) {
      if (request.slot >= 0) text += fmt::format(" [{}]", transport_.describe(request));
    }
    text += '\n';
  }
  return text;
}

}  // namespace weir
