// What can be seen of a communicator from outside: traces, dumps, metrics, stragglers.
#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/control.hpp"
#include "communicator/communicator.hpp"

namespace weir {
namespace detail {
namespace {

/// Between these two times all ranks were in the collective.
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
  identity_ = identity;
  const auto attempt = [this](const char* what, auto&& make) {
    try {
      make();
    } catch (const std::exception& error) {
      log(settings.log, LogLevel::warn, "rank {}: no {}: {}", identity_.rank, what, error.what());
    }
  };
  if (!settings.trace.empty()) attempt("trace", [&] { engine.set_tracer(std::make_unique<Tracer>(settings.trace, identity)); });
  if (!settings.metrics.empty())
    attempt("metrics", [&] { metrics = std::make_unique<Metrics>(settings.metrics, identity, settings.log); });
  if (settings.dump_signal != 0) count_signal(settings.dump_signal);
  if (!settings.dump.empty()) {
    engine.on_dump([this, attempt](std::string_view why) {
      // One break brings others: the first dump says most.
      if (dumped_ != Clock::time_point{} && Clock::now() - dumped_ < std::chrono::seconds(1)) return;
      dumped_ = Clock::now();
      attempt("dump", [&] { dump(identity_.file(settings.dump, "weir-dump", "json"), why); });
    });
  }
  if (!rounds) return;
  std::vector<ClockRound> times;
  for (int round = 0; round < 16; ++round) times.push_back(clock_round(*this));
  if (Tracer* const tracer = engine.tracer()) tracer->set_clock_rounds(times);
}

void CommunicatorState::dump(const std::string& path, std::string_view why) {
  require(!path.empty(), "the path of the dump is empty: it must name a file");
  const auto inside = enter();
  engine.note_progress();
  write_whole_file(path, engine.recorder().to_json(identity_, why, engine.dump(), settings.timeout_seconds));
}

void CommunicatorState::note(const Run& run, const TrafficCount& traffic, double seconds_waited) {
  const auto inside = enter();
  if (metrics) metrics->add(run, traffic, seconds_waited);
  Tracer* const tracer = engine.tracer();
  if (tracer == nullptr) return;
  for (std::size_t level = 0; level < level_count; ++level) sent_[level] += traffic.bytes_sent[level];
  tracer->sent(Clock::now(), sent_);
}

std::vector<double> CommunicatorState::stragglers(int runs) {
  const auto inside = enter();
  agree("asking for stragglers", "communicator", "stragglers", [&] {
    require(runs >= 1 && runs <= FlightRecorder::capacity, "{} runs: it must be 1 to {}", runs, FlightRecorder::capacity);
  });
  // In memory that outlives a failure: largest_card bytes for each rank.
  const auto ranks = static_cast<std::size_t>(transport->size());
  const std::span waits(reinterpret_cast<std::uint64_t*>(cards_.data()), ranks);
  std::fill(waits.begin(), waits.end(), 0);
  const FlightRecorder& recorder = engine.recorder();
  for (std::int64_t i = std::max<std::int64_t>(0, recorder.kept() - runs); i < recorder.kept(); ++i) {
    const CallRecord& record = recorder.at(i);
    if (record.awaited_rank >= 0 && record.tag != setup_tag)
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

}  // namespace weir
