#include "model/calibrate.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "base/keep.hpp"
#include "collectives/control.hpp"
#include "model/rates.hpp"

namespace weir {
namespace {

constexpr std::int64_t small_bytes = 8, trial_bytes = std::int64_t{1} << 20;
// More than a network lets through in a burst, and no more than a rank can spare.
constexpr std::int64_t least_bytes = std::int64_t{1} << 22, most_bytes = std::int64_t{1} << 24;
constexpr std::int64_t array_bytes = std::int64_t{1} << 25;  // larger than the caches, as gradients are
constexpr int trial_repeats = 10, large_repeats = 3, most_large_repeats = 100, burst_messages = 64, burst_repeats = 10;
constexpr int most_repeats = 1000;
constexpr double message_times_per_level = 16;

struct Pair {
  int sender, receiver;
};
using Pairs = std::vector<Pair>;

/// Returns disjoint pairs of ranks whose nearest common level is `level`; the same on every rank.
Pairs pairs_of(const Topology& topology, Level level) {
  Pairs pairs;
  std::vector<bool> taken(static_cast<std::size_t>(topology.size()));
  for (int a = 0; a < topology.size(); ++a) {
    for (int b = a + 1; b < topology.size() && !taken[static_cast<std::size_t>(a)]; ++b) {
      if (taken[static_cast<std::size_t>(b)] || topology.level(a, b) != level) continue;
      taken[static_cast<std::size_t>(a)] = taken[static_cast<std::size_t>(b)] = true;
      pairs.push_back({a, b});
    }
  }
  return pairs;
}

/// Returns the bytes/s that a node sends if each pair's sender took its `seconds` for `bytes`: the median of the nodes that send.
double node_rate(const Topology& topology, const Pairs& pairs, const std::vector<double>& seconds, double bytes) {
  std::vector<double> sent(static_cast<std::size_t>(topology.node_count())), slowest(sent.size()), rates;
  for (const Pair& pair : pairs) {
    const auto node = static_cast<std::size_t>(topology.node_of(pair.sender));
    sent[node] += bytes;
    slowest[node] = std::max(slowest[node], seconds[static_cast<std::size_t>(pair.sender)]);
  }
  for (std::size_t node = 0; node < sent.size(); ++node) {
    if (sent[node] > 0) rates.push_back(sent[node] / slowest[node]);
  }
  return quantile_of(std::move(rates), 0.5);
}

class Calibrator {
 public:
  Calibrator(Channel channel, double seconds, CalibrationProgress progress)
      : channel_(channel), seconds_(seconds), progress_(progress), all_(static_cast<std::size_t>(channel.size())), scratch_(all_) {}

  task<void> run(Machine& machine) {
    machine.provenance = {};
    machine.provenance.ranks = channel_.size();
    machine.provenance.nodes = channel_.topology().node_count();
    const StageScope stage = channel_.stage(Stage::measure);
    if (channel_.size() > 1) co_await measure_links(machine);
    co_await measure_rates(machine.rates);
  }

 private:
  /// What a pair does while it is timed.
  enum class Pattern { one_way, both_ways, burst };
  /// Which time of a pair's repeats counts: the usual one, or the mean of all.
  enum class Time { usual, mean };

  void announce(const char* what) {
    if (progress_ != nullptr && channel_.rank() == 0) progress_(what);
  }

  /// Sets all_ to every rank's `mine`, in rank order. Also a barrier.
  task<void> share(double mine) {
    co_await allgather_control(channel_, reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                               reinterpret_cast<std::byte*>(all_.data()), reinterpret_cast<std::byte*>(scratch_.data()));
  }

  task<void> measure_links(Machine& machine) {
    std::array<Pairs, level_count> pairs;
    int levels = 0;
    for (int level = 1; level < level_count; ++level) {
      pairs[static_cast<std::size_t>(level)] = pairs_of(channel_.topology(), static_cast<Level>(level));
      levels += !pairs[static_cast<std::size_t>(level)].empty();
    }
    machine.links = {};
    for (int level = 1; level < level_count; ++level) {
      const Pairs& some = pairs[static_cast<std::size_t>(level)];
      if (some.empty()) continue;
      announce(level_name(static_cast<Level>(level)).data());
      Link link;
      co_await measure_link(some, level > static_cast<int>(Level::node), seconds_ / 2 / levels / message_times_per_level, link);
      machine.links[static_cast<std::size_t>(level)] = link;
    }
  }

  task<void> measure_link(const Pairs& pairs, bool across, double seconds_per_message, Link& link) {
    const double trial = co_await alone(pairs, Pattern::one_way, small_bytes, trial_repeats);
    const int repeats =
        std::clamp(static_cast<int>(std::min<double>(most_repeats, seconds_per_message / trial)), trial_repeats, most_repeats);
    // All pairs at once, as in a collective: if ranks share cores, most of the latency is waiting for the core.
    co_await together(pairs, Pattern::one_way, small_bytes, repeats);
    link.latency = typical(pairs) / 2;
    const double burst = co_await alone(pairs, Pattern::burst, small_bytes, burst_repeats);
    link.overhead = std::max(0.0, burst - 2 * link.latency) / burst_messages;

    const double trial_large = co_await alone(pairs, Pattern::one_way, trial_bytes, 1);
    const double wanted = trial_bytes * seconds_per_message / trial_large;
    const auto bytes = static_cast<std::int64_t>(std::clamp<double>(wanted, least_bytes, most_bytes));
    const auto size = static_cast<double>(bytes);
    // If the largest message takes less than its share of the time, it is sent more often.
    const int often = static_cast<int>(std::clamp<double>(large_repeats * wanted / size, large_repeats, most_large_repeats));
    link.bandwidth = size / co_await alone(pairs, Pattern::one_way, bytes, often);
    link.exchange = size / co_await alone(pairs, Pattern::both_ways, bytes, often);
    // Connections that share a card may take turns: each sends most of its messages at the full rate, and waits in one.
    if (across)
      co_await together(pairs, Pattern::one_way, bytes, often, Time::mean);
    else
      co_await together(pairs, Pattern::both_ways, bytes, often);
    link.shared = node_rate(channel_.topology(), pairs, all_, across ? size : 2 * size);
  }

  /// Returns the seconds that the first pair takes while all others wait; the same on every rank.
  task<double> alone(const Pairs& pairs, Pattern pattern, std::int64_t bytes, int repeats) {
    const Pairs first(pairs.begin(), pairs.begin() + 1);
    co_await together(first, pattern, bytes, repeats);
    co_return all_[static_cast<std::size_t>(first[0].sender)];
  }

  /// Returns the median over the pairs of the seconds that together() has measured.
  [[nodiscard]] double typical(const Pairs& pairs) const {
    std::vector<double> seconds;
    for (const Pair& pair : pairs) seconds.push_back(all_[static_cast<std::size_t>(pair.sender)]);
    return quantile_of(std::move(seconds), 0.5);
  }

  /// Sets all_[r] to the seconds that the pair whose sender is r takes while all pairs do the same.
  task<void> together(const Pairs& pairs, Pattern pattern, std::int64_t bytes, int repeats, Time time = Time::usual) {
    double seconds = 0;
    co_await share(seconds);
    const Clock::time_point begin = Clock::now();
    for (const Pair& pair : pairs) {
      const bool sends = pair.sender == channel_.rank();
      if (!sends && pair.receiver != channel_.rank()) continue;
      seconds = co_await timed(pattern, sends ? pair.receiver : pair.sender, sends, bytes, repeats);
      if (time == Time::mean) seconds = std::chrono::duration<double>(Clock::now() - begin).count() / (repeats + 1);
    }
    co_await share(seconds);
  }

  /// Returns the median of `repeats`, after one that does not count. For small messages returns the lower quartile: if more than
  /// half of them are late, the cause is other load, not the network.
  task<double> timed(Pattern pattern, int peer, bool sends, std::int64_t bytes, int repeats) {
    std::vector<double> times;
    for (int i = 0; i <= repeats; ++i) {
      const Clock::time_point begin = Clock::now();
      if (pattern == Pattern::one_way) co_await there_and_back(peer, sends, bytes);
      if (pattern == Pattern::both_ways) co_await both_ways(peer, bytes);
      if (pattern == Pattern::burst) co_await burst(peer, sends);
      if (i > 0) times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    co_return quantile_of(std::move(times), bytes == small_bytes ? 0.25 : 0.5);
  }

  task<void> there_and_back(int peer, bool sends, std::int64_t bytes) {
    if (sends) {
      co_await channel_.done(channel_.send(arrays_.out(), bytes, peer, Traffic::control));
      co_await channel_.done(channel_.receive(arrays_.in(), small_bytes, peer, Traffic::control));
    } else {
      co_await channel_.done(channel_.receive(arrays_.in(), bytes, peer, Traffic::control));
      co_await channel_.done(channel_.send(arrays_.out(), small_bytes, peer, Traffic::control));
    }
  }

  task<void> both_ways(int peer, std::int64_t bytes) {
    std::array<Request, 2> both;
    both[0] = channel_.receive(arrays_.in(), bytes, peer, Traffic::control);
    both[1] = channel_.send(arrays_.out(), bytes, peer, Traffic::control);
    co_await channel_.done(both);
  }

  task<void> burst(int peer, bool sends) {
    std::array<Request, burst_messages> requests;
    for (Request& request : requests) {
      if (sends)
        request = channel_.send(arrays_.out(), small_bytes, peer, Traffic::control);
      else
        request = channel_.receive(arrays_.in(), small_bytes, peer, Traffic::control);
    }
    co_await channel_.done(requests);
    co_await there_and_back(peer, !sends, small_bytes);
  }

  task<void> measure_rates(Rates& rates) {
    for (const RateMeasurement& measurement : rate_measurements) {
      announce(measurement.what);
      co_await share(0);
      const double mine = (arrays_.*measurement.measure)(seconds_ / 2 / static_cast<double>(rate_measurements.size()));
      co_await share(mine);
      rates.*measurement.rate = quantile_of(all_, 0.5);
    }
  }

  Channel channel_;
  double seconds_;
  CalibrationProgress progress_;
  RateArrays arrays_{array_bytes};
  std::vector<double> all_, scratch_;
};

}  // namespace

task<Machine> calibrate(Channel channel, double seconds, CalibrationProgress progress) {
  require(seconds > 0 && seconds <= 3600, "a calibration of {} seconds was asked for: it must be above 0 and at most 3600",
          seconds);
  Machine machine = builtin_machine();
  const auto calibrator = std::make_shared<Calibrator>(channel, seconds, progress);
  try {
    co_await calibrator->run(machine);
  } catch (...) {
    keep_forever(calibrator);  // messages under way use its arrays
    throw;
  }
  co_return machine;
}

}  // namespace weir
