#include "optim/sparse_adam.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/floating_point.hpp"
#include "base/state_bytes.hpp"
#include "codec/parts.hpp"
#include "optim/layer_space.hpp"

namespace weir::optim {

Powers::Powers(double base) {
  double value = 1;  // value of digit 1 in this place
  for (auto& place : of_digit_) {
    for (std::uint32_t digit = 0; digit < digits; ++digit) place[digit] = std::pow(base, value * digit);
    value *= digits;
  }
}

namespace {

const SparseAdamConfig& checked(const SparseAdamConfig& c) {
  check_fields(c);
  const auto below_one = [](const char* name, double value) {
    require(value >= 0 && static_cast<float>(value) < 1, "{} is {}: it must be from 0 to below 1, also as float32, for example 0.9",
            name, value);
  };
  below_one("beta1", c.beta1);
  below_one("beta2", c.beta2);
  require(static_cast<float>(c.epsilon) > 0 && std::isfinite(static_cast<float>(c.epsilon)),
          "epsilon is {}: it must be above 0, and finite, also as float32, for example 1e-8", c.epsilon);
  return c;
}

}  // namespace
}  // namespace weir::optim

namespace weir::detail {

using namespace weir::optim;

SparseAdamState::SparseAdamState(const SparseAdamConfig& configuration)
    : config(checked(configuration)),
      first_(config.count),
      second_(config.count),
      touched_(config.count),
      gradient_(config.exact ? config.count : 0),
      chunk_(3 * chunk),
      powers1_(static_cast<float>(config.beta1)),
      powers2_(static_cast<float>(config.beta2)) {
  reset();
}

void SparseAdamState::reset() {
  kernels::host::fill_zero(first_.data(), first_.size());
  kernels::host::fill_zero(second_.data(), second_.size());
  kernels::host::fill_zero(gradient_.data(), gradient_.size());
  std::fill_n(touched_.data(), touched_.size(), 0U);
  begun_ = false;
  state_ = {};
}

void SparseAdamState::check(const SparseView<float>& part, std::span<const float> weights, double learning_rate) const {
  require(std::ssize(weights) == config.count, "optimizer '{}': there are {} weights: it has {}", config.name, weights.size(),
          config.count);
  require(std::isfinite(static_cast<float>(learning_rate)),
          "optimizer '{}': learning_rate is {}: it must be finite as float32, at most 3.4e38", config.name, learning_rate);
  const std::span<const std::uint32_t> indices = part.indices;
  require(indices.size() == part.values.size(), "optimizer '{}': an update has {} indices and {} values: as many of each",
          config.name, indices.size(), part.values.size());
  if (indices.empty()) return;
  require(wire::strictly_ascending(indices.data(), std::ssize(indices)),
          "optimizer '{}': the update's indices do not ascend: sort them, and give none twice", config.name);
  require(indices.back() < config.count, "optimizer '{}': the update has an entry {}: weights are numbered 0 to {}", config.name,
          indices.back(), config.count - 1);
  if (!begun_) return;
  const auto twice = std::find_if(indices.begin(), indices.end(), [&](std::uint32_t i) { return touched_[i] == this_step(); });
  if (twice == indices.end()) return;
  fail(WEIR_ERR_ARGUMENT, "optimizer '{}': entry {} is in two parts of one step: add up its values first", config.name, *twice);
}

void SparseAdamState::step(const SparseView<float>& part, std::span<float> weights, double learning_rate, bool last) {
  const StandardFloatingPoint standard;
  check(part, weights, learning_rate);
  if (state_.steps == most_steps)
    fail(WEIR_ERR_STATE, "optimizer '{}' has made {} steps, which is as far as it counts: reset it", config.name, most_steps);
  if (!begun_) factors_ = adam_factors(config.beta1, config.beta2, config.epsilon, 0, state_.steps + 1);
  begun_ = true;
  const auto rate = static_cast<float>(learning_rate);
  if (config.exact)
    collect(part);
  else
    step_entries(part, weights.data(), rate);
  if (!last) return;
  if (config.exact) step_all(weights.data(), rate);
  ++state_.steps;
  begun_ = false;
}

/// Steps entries as LAMB does. Gathers the entries' weights and moments into arrays, a chunk at a time, because they lie anywhere.
void SparseAdamState::step_entries(const SparseView<float>& part, float* weights, float rate) {
  constexpr std::int64_t ahead = 32;  // entries: enough to hide a cache miss
  const std::uint32_t* const indices = part.indices.data();
  const std::int64_t count = std::ssize(part.indices);
  const std::uint32_t now = this_step();
  float* const w = chunk_.data();
  float* const first = w + chunk;
  float* const second = first + chunk;
  for (std::int64_t begin = 0; begin < count; begin += chunk) {
    const std::int64_t size = std::min(chunk, count - begin);
    for (std::int64_t i = 0; i < size; ++i) {
      if (begin + i + ahead < count) {
        // Prefetch to the second-level cache, which allows more misses in flight.
        const std::uint32_t later = indices[begin + i + ahead];
        __builtin_prefetch(weights + later, 0, 2);
        __builtin_prefetch(first_.data() + later, 0, 2);
        __builtin_prefetch(second_.data() + later, 0, 2);
        __builtin_prefetch(touched_.data() + later, 0, 2);
      }
      const std::uint32_t entry = indices[begin + i];
      const std::uint32_t missed = now - touched_[entry] - 1;  // steps without a gradient
      touched_[entry] = now;
      w[i] = weights[entry];
      first[i] = first_[entry] * static_cast<float>(powers1_.of(missed));
      second[i] = second_[entry] * static_cast<float>(powers2_.of(missed));
    }
    kernels::host::adam_moments(part.values.data() + begin, w, first, second, size, factors_);
    kernels::host::adam_step(first, second, w, size, rate, factors_);
    kernels::host::scatter(weights, indices + begin, w, size);
    kernels::host::scatter(first_.data(), indices + begin, first, size);
    kernels::host::scatter(second_.data(), indices + begin, second, size);
  }
}

void SparseAdamState::collect(const SparseView<float>& part) {
  for (const std::uint32_t entry : part.indices) touched_[entry] = this_step();
  kernels::host::scatter(gradient_.data(), part.indices.data(), part.values.data(), std::ssize(part.indices));
}

void SparseAdamState::step_all(float* weights, float rate) {
  kernels::host::adam_moments(gradient_.data(), weights, first_.data(), second_.data(), config.count, factors_);
  kernels::host::adam_step(first_.data(), second_.data(), weights, config.count, rate, factors_);
  kernels::host::fill_zero(gradient_.data(), gradient_.size());
}

void SparseAdamState::visit_state(StateVisitor& visitor, std::int64_t begin, std::int64_t end) {
  if (begun_)
    fail(WEIR_ERR_BUSY, "optimizer '{}' is between the parts of a step: end it by step() before its state is saved or restored",
         config.name);
  visitor.fixed("count", config.count);
  visitor.fixed("exact", config.exact ? 1 : 0);
  visitor.state(state_);
  const StateVisitor::Copy copy = [](void* to, const void* from, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  };
  const StateVisitor::Placed placed(visitor, {Share::block, range_of(config.count, begin, end - begin)});
  visitor.array("first", first_.data() + begin, end - begin, copy);
  visitor.array("second", second_.data() + begin, end - begin, copy);
  if (!config.exact) visitor.array("touched", touched_.data() + begin, end - begin, copy);
}

std::int64_t SparseAdamState::memory_bytes() const {
  return first_.bytes() + second_.bytes() + touched_.bytes() + gradient_.bytes() + chunk_.bytes() +
         static_cast<std::int64_t>(sizeof *this);
}

}  // namespace weir::detail

namespace weir {
namespace {

std::string words(const detail::SparseAdamState& adam) { return fmt::format("optimizer '{}'", adam.config.name); }

}  // namespace

SparseAdam::SparseAdam(const SparseAdamConfig& config) : state_(std::make_shared<detail::SparseAdamState>(config)) {}
SparseAdam::SparseAdam(SparseAdam&&) noexcept = default;
SparseAdam& SparseAdam::operator=(SparseAdam&&) noexcept = default;
SparseAdam::~SparseAdam() = default;

void SparseAdam::step(const SparseView<float>& update, std::span<float> weights, double learning_rate) {
  state_->step(update, weights, learning_rate, true);
}
void SparseAdam::step_part(const SparseView<float>& part, std::span<float> weights, double learning_rate) {
  state_->step(part, weights, learning_rate, false);
}
std::int64_t SparseAdam::steps() const { return state_->steps(); }
const SparseAdamConfig& SparseAdam::config() const { return state_->config; }
std::int64_t SparseAdam::memory_bytes() const { return state_->memory_bytes(); }
std::int64_t SparseAdam::state_bytes() const { return weir::state_bytes(*state_); }
void SparseAdam::save_state(std::span<std::byte> state) const { weir::save_state(*state_, state, words(*state_)); }
void SparseAdam::restore_state(std::span<const std::byte> state) { weir::restore_state(*state_, state, words(*state_)); }
void SparseAdam::reset() { state_->reset(); }

}  // namespace weir
