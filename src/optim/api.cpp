// The classes of weir/optim.hpp over their states.
#include "base/keep.hpp"
#include "base/state_bytes.hpp"
#include "optim/layer_optimizer.hpp"
#include "optim/parallel_operator.hpp"

namespace weir {
namespace {

bool retire(detail::OperatorImpl& state) noexcept { return detail::retire(state); }
bool retire(detail::OptimizerImpl& state) noexcept { return state.retire(); }

template <class Impl>
void retire(std::shared_ptr<Impl>& state) noexcept {
  if (!state) return;
  const std::shared_ptr<detail::CommunicatorState> comm = state->comm;  // ends after the object, with nobody inside
  const auto inside = comm->enter();
  if (retire(*state))
    state.reset();
  else
    keep_forever(std::move(state));
}

std::string words(const detail::OptimizerImpl& optimizer) { return fmt::format("optimizer '{}'", optimizer.config.name); }

}  // namespace

ParallelOperator::ParallelOperator(const Communicator& comm, const OperatorConfig& config, std::span<const OperatorPart> parts)
    : state_(comm.state()->guarded([&] { return detail::make_operator(comm.state(), config, parts); })) {}
ParallelOperator::ParallelOperator(ParallelOperator&&) noexcept = default;
ParallelOperator& ParallelOperator::operator=(ParallelOperator&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
ParallelOperator::~ParallelOperator() { retire(state_); }

void ParallelOperator::run(const OperatorBody& body, std::span<std::byte> results) { start(body, results).wait(); }
Operation ParallelOperator::start(const OperatorBody& body, std::span<std::byte> results) {
  const auto inside = state_->comm->enter();
  state_->start({}, body, results);
  return Operation(state_);
}
Operation ParallelOperator::refuse(std::string_view why) {
  const auto inside = state_->comm->enter();
  state_->refuse(why);
  return Operation(state_);
}

int ParallelOperator::size() const { return static_cast<int>(state_->parts.size()); }
std::int64_t ParallelOperator::bytes() const { return state_->offsets.back(); }
std::int64_t ParallelOperator::offset(int part) const {
  state_->check_part(part);
  return state_->offsets[static_cast<std::size_t>(part)];
}
std::int64_t ParallelOperator::result_bytes(int part) const {
  state_->check_part(part);
  return state_->sizes[static_cast<std::size_t>(part)];
}
bool ParallelOperator::works_on(int part) const {
  state_->check_part(part);
  return state_->works_on(static_cast<std::size_t>(part));
}
const OperatorConfig& ParallelOperator::config() const { return state_->config; }
const OperatorStatistics& ParallelOperator::statistics() const { return state_->statistics; }
std::string ParallelOperator::explanation() const { return state_->explanation; }
std::int64_t ParallelOperator::memory_bytes() const { return state_->memory_bytes(); }

LayerOptimizer::LayerOptimizer(const Communicator& comm, const OptimizerConfig& config, std::span<const OptimizedLayer> layers)
    : state_(comm.state()->guarded([&] { return detail::make_optimizer(comm.state(), config, layers); })) {}
LayerOptimizer::LayerOptimizer(LayerOptimizer&&) noexcept = default;
LayerOptimizer& LayerOptimizer::operator=(LayerOptimizer&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
LayerOptimizer::~LayerOptimizer() { retire(state_); }

void LayerOptimizer::step(std::span<float* const> weights, std::span<const float* const> gradients, double learning_rate,
                          void* stream) {
  const auto inside = state_->comm->enter();
  state_->step(weights, gradients, learning_rate, stream);
}
void LayerOptimizer::step_raw(std::span<void* const> weights, std::span<const void* const> gradients, double learning_rate,
                              void* stream) {
  const auto inside = state_->comm->enter();
  state_->step(weights, gradients, learning_rate, stream);
}
void LayerOptimizer::refuse(std::string_view why) {
  const auto inside = state_->comm->enter();
  state_->refuse(why);
}
int LayerOptimizer::size() const { return static_cast<int>(state_->layers.size()); }
std::span<const double> LayerOptimizer::rates() const { return state_->rates; }
const OptimizerConfig& LayerOptimizer::config() const { return state_->config; }
const OptimizerStatistics& LayerOptimizer::statistics() const { return state_->statistics; }
std::string LayerOptimizer::explanation() const { return state_->explanation(); }
std::int64_t LayerOptimizer::memory_bytes() const { return state_->memory_bytes(); }
std::int64_t LayerOptimizer::state_bytes() const { return weir::state_bytes(*state_); }
void LayerOptimizer::save_state(std::span<std::byte> state) const { weir::save_state(*state_, state, words(*state_)); }
void LayerOptimizer::restore_state(std::span<const std::byte> state) { weir::restore_state(*state_, state, words(*state_)); }
void LayerOptimizer::reset() { state_->reset(); }

}  // namespace weir
