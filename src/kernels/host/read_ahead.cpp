#include "kernels/read_ahead.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>

namespace weir::kernels::host {
namespace {

/// Smaller arrays may come from a cache, for which the difference is not the same.
constexpr std::int64_t least_bytes = std::int64_t{32} << 20;
/// Number of calls to time with reading ahead, and of as many without. The fastest counts, since others may have been interrupted.
constexpr int samples = 4;

enum class Decision { open, off, on };

struct Trial {
  std::atomic<Decision> decision{Decision::open};
  std::atomic<unsigned> turns{0};
  std::array<std::atomic<int>, 2> seen{};
  std::array<std::atomic<double>, 2> nanoseconds_a_byte{std::numeric_limits<double>::infinity(),
                                                        std::numeric_limits<double>::infinity()};
};
Trial trial;

std::int64_t now() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void note(bool ahead, double nanoseconds_a_byte) noexcept {
  std::atomic<double>& best = trial.nanoseconds_a_byte[ahead ? 1 : 0];
  for (double last = best.load(); nanoseconds_a_byte < last && !best.compare_exchange_weak(last, nanoseconds_a_byte);) {
  }
  trial.seen[ahead ? 1 : 0].fetch_add(1);
  if (trial.seen[0].load() < samples || trial.seen[1].load() < samples) return;
  Decision undecided = Decision::open;
  trial.decision.compare_exchange_strong(
      undecided, trial.nanoseconds_a_byte[1].load() < trial.nanoseconds_a_byte[0].load() ? Decision::on : Decision::off);
}

}  // namespace

void set_read_ahead(bool ahead) noexcept { trial.decision = ahead ? Decision::on : Decision::off; }

bool selects_ahead() noexcept { return trial.decision.load(std::memory_order_relaxed) == Decision::on; }

std::string read_ahead_text() {
  const Decision decision = trial.decision;
  if (decision == Decision::open) return "not measured yet";
  const std::string way = decision == Decision::on ? "on" : "off";
  if (trial.seen[0] < samples || trial.seen[1] < samples) return way + ": as set";
  std::array<char, 16> ratio{};
  std::snprintf(ratio.data(), ratio.size(), "%.2f", trial.nanoseconds_a_byte[1] / trial.nanoseconds_a_byte[0]);
  return way + ": with it, selection takes " + ratio.data() + " x the time";
}

ReadAheadTurn::ReadAheadTurn(std::int64_t bytes) noexcept : bytes_(bytes) {
  const Decision decision = trial.decision.load(std::memory_order_relaxed);
  on_ = decision == Decision::on;
  if (decision != Decision::open || bytes < least_bytes) return;
  on_ = trial.turns.fetch_add(1) % 2 == 1;
  begun_ = now();
}

ReadAheadTurn::~ReadAheadTurn() {
  if (begun_ != 0) note(on_, static_cast<double>(now() - begun_) / static_cast<double>(bytes_));
}

}  // namespace weir::kernels::host
