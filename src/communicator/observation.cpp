// What can be observed of a communicator from outside: traces, dumps, metrics, stragglers.
#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/signals.hpp"
#include "collectives/control.hpp"
#include "communicator/communicator.hpp"
#include "observe/metrics.hpp"

namespace weir {
namespace detail {
namespace {

/// Returns two times between which all ranks were in one collective.
ClockRound clock_round(CommunicatorState& comm) {
  const auto now = [] { return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count(); };
  ClockRound round;
  round.entered = now();
  comm.share("putting clocks together", 0);
  round.left = now();
  return round;
}

}  // namespace

void CommunicatorState::observe(const Identity& identity, bool rounds) {
  const auto attempt = [&](const char* what, auto&& make) {
    try {
      make();
    } catch (const std::exception& error) {
      log(settings.log, LogLevel::warn, "rank {}: no {}: {}", identity.rank, what, error.what());
    }
  };
  recorder.identify(identity, settings);
  if (!settings.trace.empty()) {
    attempt("trace", [&] {
      tracer = std::make_unique<Tracer>(settings.trace, identity);
      engine.add_observer(*tracer);
    });
  }
  if (!settings.metrics.empty()) {
    attempt("metrics", [&] {
      metrics_ = std::make_unique<Metrics>(settings.metrics, identity, settings.log);
      engine.add_observer(*metrics_);
    });
  }
  if (settings.dump_signal != 0) count_signal(settings.dump_signal);
  if (!rounds) return;
  std::vector<ClockRound> times;
  for (int round = 0; round < 16; ++round) times.push_back(clock_round(*this));
  if (tracer) tracer->set_clock_rounds(times);
}

void CommunicatorState::dump(const std::string& path, std::string_view why) {
  const auto inside = enter();
  recorder.write(path, why, engine.dump());
}

void CommunicatorState::add_observer(std::shared_ptr<Observer> observer) {
  const auto inside = enter();
  require(observer != nullptr, "the observer is a null pointer");
  require(std::find(observers_.begin(), observers_.end(), observer) == observers_.end(), "the observer has been added before");
  observers_.reserve(observers_.size() + 1);
  engine.add_observer(*observer);
  observers_.push_back(std::move(observer));
}

void CommunicatorState::remove_observer(const std::shared_ptr<Observer>& observer) {
  const auto inside = enter();
  require(std::erase(observers_, observer) > 0, "the observer was not added to this communicator");
  engine.remove_observer(*observer);
}

std::vector<double> CommunicatorState::stragglers(int runs) {
  const auto inside = enter();
  agree("asking for stragglers", "communicator", "stragglers", [&] {
    require(runs >= 1 && runs <= FlightRecorder::capacity, "{} runs: it must be 1 to {}", runs, FlightRecorder::capacity);
  });
  // cards_ outlives a failure. It has largest_card bytes for each rank.
  const auto ranks = static_cast<std::size_t>(transport->size());
  const std::span waits(reinterpret_cast<std::uint64_t*>(cards_.data()), ranks);
  std::fill(waits.begin(), waits.end(), 0);
  for (std::int64_t i = std::max<std::int64_t>(0, recorder.kept() - runs); i < recorder.kept(); ++i) {
    const CallRecord record = recorder.at(i);
    if (record.awaited_rank >= 0 && record.call != 0)
      waits[static_cast<std::size_t>(record.awaited_rank)] += static_cast<std::uint64_t>(record.awaited_seconds * 1e9);
  }
  run_blocking("adding up waits", setup_tag, [&](Channel channel) {
    return allreduce_control(channel, waits.data(), std::ssize(waits), 0, reinterpret_cast<std::uint64_t*>(scratch_.data()));
  });
  const auto total = static_cast<double>(std::accumulate(waits.begin(), waits.end(), std::uint64_t{0}));
  std::vector<double> shares;
  for (const std::uint64_t wait : waits) shares.push_back(total > 0 ? static_cast<double>(wait) / total : 0);
  return shares;
}

}  // namespace detail

std::vector<double> Communicator::stragglers(int runs) const { return state_->stragglers(runs); }
void Communicator::dump(const std::string& path) const { state_->dump(path, "the program has asked for it"); }
void Communicator::add_observer(std::shared_ptr<Observer> observer) const {
  state_->guarded([&] { state_->add_observer(std::move(observer)); });
}
void Communicator::remove_observer(const std::shared_ptr<Observer>& observer) const {
  state_->guarded([&] { state_->remove_observer(observer); });
}

}  // namespace weir
