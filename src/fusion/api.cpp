// The class of weir/fusion.hpp over its state.
#include <chrono>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/state_bytes.hpp"
#include "communicator/owner.hpp"
#include "fusion/fused.hpp"
#include "fusion/fusion_config.hpp"

namespace weir {
namespace {

std::string words(const detail::FusedImpl& fused) { return fmt::format("fused '{}'", fused.config.name); }

}  // namespace

FusedAllreduce::FusedAllreduce(const Communicator& comm, const FusionConfig& config, std::span<const FusedTensor> tensors)
    : state_(owned(comm.state(), [&] { return detail::make_fused(comm.state(), config, tensors); })) {}

namespace {
template <class T>
void hand_in(const detail::Owner<detail::FusedImpl>& fused, int tensor, std::span<T> g, bool contributes) {
  enter(fused)->ready(tensor, g.data(), std::ssize(g), data_type_of<T>, contributes);
}
}  // namespace

void FusedAllreduce::ready(int tensor, std::span<float> g) { hand_in(state_, tensor, g, true); }
void FusedAllreduce::ready(int tensor, std::span<double> g) { hand_in(state_, tensor, g, true); }
void FusedAllreduce::ready_raw(int tensor, void* g, std::int64_t count) {
  enter(state_)->ready(tensor, g, count, config().type, true);
}
void FusedAllreduce::skip(int tensor, std::span<float> g) { hand_in(state_, tensor, g, false); }
void FusedAllreduce::skip(int tensor, std::span<double> g) { hand_in(state_, tensor, g, false); }
void FusedAllreduce::skip_raw(int tensor, void* g, std::int64_t count) {
  enter(state_)->ready(tensor, g, count, config().type, false);
}
void FusedAllreduce::progress() { enter(state_)->progress(); }
bool FusedAllreduce::test(int tensor) { return enter(state_)->test(tensor, false); }
bool FusedAllreduce::wait_for(int tensor, double seconds) {
  require(seconds >= 0, "the time to wait is {} s: it must not be below 0", seconds);
  const auto fused = enter(state_);
  const Clock::time_point begin = Clock::now();
  while (!fused->test(tensor, true)) {
    if (std::chrono::duration<double>(Clock::now() - begin).count() >= seconds) return false;
  }
  return true;
}
void FusedAllreduce::wait(int tensor) { enter(state_)->wait(tensor); }
void FusedAllreduce::wait_all() { enter(state_)->wait_all(); }

int FusedAllreduce::size() const { return static_cast<int>(unguarded(state_).tensors.size()); }
int FusedAllreduce::tensor(std::string_view name) const {
  return fusion::find_tensor(unguarded(state_).config, unguarded(state_).tensors, name);
}
const FusedTensor& FusedAllreduce::description(int tensor) const {
  unguarded(state_).check_tensor(tensor);
  return unguarded(state_).tensors[static_cast<std::size_t>(tensor)];
}
int FusedAllreduce::buffer_of(int tensor) const {
  const auto fused = enter(state_);
  fused->check_tensor(tensor);
  return fused->buffer_of(tensor);
}

template <class T>
std::span<const T> FusedAllreduce::residual(int tensor) const {
  const auto fused = enter(state_);
  fused->check_tensor(tensor);
  const bool wide = fused->config.type == DataType::float64;
  require(wide == std::is_same_v<T, double>, "{}: a residual was asked for as another type than it has, {}", words(*fused),
          wide ? "float64" : "float32");
  fused->require_idle("asking for a residual");
  const auto* const values = static_cast<const T*>(fused->residual(tensor));
  return {values, values != nullptr ? static_cast<std::size_t>(description(tensor).count) : 0};
}
template std::span<const float> FusedAllreduce::residual(int) const;
template std::span<const double> FusedAllreduce::residual(int) const;

const FusionStatistics& FusedAllreduce::statistics() const { return unguarded(state_).statistics; }
const FusionConfig& FusedAllreduce::config() const { return unguarded(state_).config; }
std::string FusedAllreduce::explanation() const { return enter(state_)->explanation(); }
std::int64_t FusedAllreduce::memory_bytes() const { return enter(state_)->memory_bytes(); }
std::int64_t FusedAllreduce::state_bytes() const { return weir::state_bytes(*enter(state_)); }
void FusedAllreduce::save_state(std::span<std::byte> state) const {
  const auto fused = enter(state_);
  weir::save_state(*fused, state, words(*fused));
}
void FusedAllreduce::restore_state(std::span<const std::byte> state) {
  const auto fused = enter(state_);
  weir::restore_state(*fused, state, words(*fused));
}
void FusedAllreduce::reset() { enter(state_)->reset(); }
void FusedAllreduce::scale_residuals(double factor) {
  const auto fused = enter(state_);
  check_scale(factor, fused->config.type, words(*fused));
  fused->scale(factor);
}

}  // namespace weir
