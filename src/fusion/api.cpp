// The class of weir/fusion.hpp over its state.
#include <chrono>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/keep.hpp"
#include "base/state_bytes.hpp"
#include "fusion/fused.hpp"
#include "fusion/fusion_config.hpp"

namespace weir {
namespace {

void retire(std::shared_ptr<detail::FusedImpl>& fused) noexcept {
  if (!fused) return;
  const std::shared_ptr<detail::CommunicatorState> comm = fused->comm;  // ends after the object, with nobody inside
  const auto inside = comm->enter();
  if (fused->retire())
    fused.reset();
  else
    keep_forever(std::move(fused));
}

/// With nobody else at the object: a progress thread leaves it alone meanwhile.
[[nodiscard]] detail::ProgressThread::Inside enter(const std::shared_ptr<detail::FusedImpl>& fused) { return fused->comm->enter(); }

std::string words(const detail::FusedImpl& fused) { return fmt::format("fused '{}'", fused.config.name); }

}  // namespace

FusedAllreduce::FusedAllreduce(const Communicator& comm, const FusionConfig& config, std::span<const FusedTensor> tensors)
    : state_(comm.state()->guarded([&] { return detail::make_fused(comm.state(), config, tensors); })) {}
FusedAllreduce::FusedAllreduce(FusedAllreduce&&) noexcept = default;
FusedAllreduce& FusedAllreduce::operator=(FusedAllreduce&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
FusedAllreduce::~FusedAllreduce() { retire(state_); }

void FusedAllreduce::ready(int tensor, std::span<float> g) {
  const auto inside = enter(state_);
  state_->ready(tensor, g.data(), std::ssize(g), DataType::float32, true);
}
void FusedAllreduce::ready(int tensor, std::span<double> g) {
  const auto inside = enter(state_);
  state_->ready(tensor, g.data(), std::ssize(g), DataType::float64, true);
}
void FusedAllreduce::ready_raw(int tensor, void* g, std::int64_t count) {
  const auto inside = enter(state_);
  state_->ready(tensor, g, count, state_->config.type, true);
}
void FusedAllreduce::skip(int tensor, std::span<float> g) {
  const auto inside = enter(state_);
  state_->ready(tensor, g.data(), std::ssize(g), DataType::float32, false);
}
void FusedAllreduce::skip(int tensor, std::span<double> g) {
  const auto inside = enter(state_);
  state_->ready(tensor, g.data(), std::ssize(g), DataType::float64, false);
}
void FusedAllreduce::skip_raw(int tensor, void* g, std::int64_t count) {
  const auto inside = enter(state_);
  state_->ready(tensor, g, count, state_->config.type, false);
}
void FusedAllreduce::progress() {
  const auto inside = enter(state_);
  state_->progress();
}
bool FusedAllreduce::test(int tensor) {
  const auto inside = enter(state_);
  return state_->test(tensor, false);
}
bool FusedAllreduce::wait_for(int tensor, double seconds) {
  require(seconds >= 0, "the time to wait is {} s: it must not be below 0", seconds);
  const auto inside = enter(state_);
  const Clock::time_point begin = Clock::now();
  while (!state_->test(tensor, true)) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= seconds) return false;
  }
  return true;
}
void FusedAllreduce::wait(int tensor) {
  const auto inside = enter(state_);
  state_->wait(tensor);
}
void FusedAllreduce::wait_all() {
  const auto inside = enter(state_);
  state_->wait_all();
}

int FusedAllreduce::size() const { return static_cast<int>(state_->tensors.size()); }
int FusedAllreduce::tensor(std::string_view name) const { return fusion::find_tensor(state_->config, state_->tensors, name); }
const FusedTensor& FusedAllreduce::description(int tensor) const {
  state_->check_tensor(tensor);
  return state_->tensors[static_cast<std::size_t>(tensor)];
}
int FusedAllreduce::buffer_of(int tensor) const {
  const auto inside = enter(state_);
  state_->check_tensor(tensor);
  return state_->buffer_of(tensor);
}

template <class T>
std::span<const T> FusedAllreduce::residual(int tensor) const {
  const auto inside = enter(state_);
  state_->check_tensor(tensor);
  const bool wide = state_->config.type == DataType::float64;
  require(wide == std::is_same_v<T, double>, "{}: a residual was asked for as another type than it has, {}", words(*state_),
          wide ? "float64" : "float32");
  state_->require_idle("asking for a residual");
  const auto* const values = static_cast<const T*>(state_->residual(tensor));
  return {values, values != nullptr ? static_cast<std::size_t>(description(tensor).count) : 0};
}
template std::span<const float> FusedAllreduce::residual(int) const;
template std::span<const double> FusedAllreduce::residual(int) const;

const FusionStatistics& FusedAllreduce::statistics() const { return state_->statistics; }
const FusionConfig& FusedAllreduce::config() const { return state_->config; }
std::string FusedAllreduce::explanation() const {
  const auto inside = enter(state_);
  return state_->explanation();
}
std::int64_t FusedAllreduce::memory_bytes() const {
  const auto inside = enter(state_);
  return state_->memory_bytes();
}
std::int64_t FusedAllreduce::state_bytes() const {
  const auto inside = enter(state_);
  return weir::state_bytes(*state_);
}
void FusedAllreduce::save_state(std::span<std::byte> state) const {
  const auto inside = enter(state_);
  weir::save_state(*state_, state, words(*state_));
}
void FusedAllreduce::restore_state(std::span<const std::byte> state) {
  const auto inside = enter(state_);
  weir::restore_state(*state_, state, words(*state_));
}
void FusedAllreduce::reset() {
  const auto inside = enter(state_);
  state_->reset();
}
void FusedAllreduce::scale_residuals(double factor) {
  const auto inside = enter(state_);
  check_scale(factor, state_->config.type, words(*state_));
  state_->scale(factor);
}

}  // namespace weir
