// Implements the classes of weir/optim.hpp on their states.
#include "base/state_bytes.hpp"
#include "communicator/owner.hpp"
#include "optim/layer_optimizer.hpp"
#include "optim/parallel_operator.hpp"

namespace weir {
namespace {

std::string words(const detail::OptimizerImpl& optimizer) { return fmt::format("optimizer '{}'", optimizer.config.name); }

}  // namespace

ParallelOperator::ParallelOperator(const Communicator& comm, const OperatorConfig& config, std::span<const OperatorPart> parts)
    : state_(owned(comm.state(), [&] { return detail::make_operator(comm.state(), config, parts); })) {}

void ParallelOperator::run(const OperatorBody& body, std::span<std::byte> results) { start(body, results).wait(); }
Operation ParallelOperator::start(const OperatorBody& body, std::span<std::byte> results) {
  enter(state_)->start({}, body, results);
  return Operation(*state_);
}
Operation ParallelOperator::refuse(std::string_view why) {
  enter(state_)->refuse(why);
  return Operation(*state_);
}

int ParallelOperator::size() const { return static_cast<int>(unguarded(state_).parts.size()); }
std::int64_t ParallelOperator::bytes() const { return unguarded(state_).offsets.back(); }
std::int64_t ParallelOperator::offset(int part) const {
  unguarded(state_).check_part(part);
  return unguarded(state_).offsets[static_cast<std::size_t>(part)];
}
std::int64_t ParallelOperator::result_bytes(int part) const {
  unguarded(state_).check_part(part);
  return unguarded(state_).sizes[static_cast<std::size_t>(part)];
}
bool ParallelOperator::works_on(int part) const {
  unguarded(state_).check_part(part);
  return unguarded(state_).works_on(static_cast<std::size_t>(part));
}
const OperatorConfig& ParallelOperator::config() const { return unguarded(state_).config; }
const OperatorStatistics& ParallelOperator::statistics() const { return unguarded(state_).statistics; }
std::string ParallelOperator::explanation() const { return unguarded(state_).explanation; }
std::int64_t ParallelOperator::memory_bytes() const { return enter(state_)->memory_bytes(); }

LayerOptimizer::LayerOptimizer(const Communicator& comm, const OptimizerConfig& config, std::span<const OptimizedLayer> layers)
    : state_(owned(comm.state(), [&] { return detail::make_optimizer(comm.state(), config, layers); })) {}

void LayerOptimizer::step(std::span<float* const> weights, std::span<const float* const> gradients, double learning_rate,
                          void* stream) {
  enter(state_)->step(weights, gradients, learning_rate, stream);
}
void LayerOptimizer::step_raw(std::span<void* const> weights, std::span<const void* const> gradients, double learning_rate,
                              void* stream) {
  enter(state_)->step(weights, gradients, learning_rate, stream);
}
void LayerOptimizer::refuse(std::string_view why) { enter(state_)->refuse(why); }
int LayerOptimizer::size() const { return static_cast<int>(unguarded(state_).layers.size()); }
std::span<const double> LayerOptimizer::rates() const { return unguarded(state_).rates; }
const OptimizerConfig& LayerOptimizer::config() const { return unguarded(state_).config; }
const OptimizerStatistics& LayerOptimizer::statistics() const { return unguarded(state_).statistics; }
std::string LayerOptimizer::explanation() const { return unguarded(state_).explanation(); }
std::int64_t LayerOptimizer::memory_bytes() const { return enter(state_)->memory_bytes(); }
std::int64_t LayerOptimizer::state_bytes() const { return weir::state_bytes(*enter(state_)); }
void LayerOptimizer::save_state(std::span<std::byte> state) const {
  const auto optimizer = enter(state_);
  weir::save_state(*optimizer, state, words(*optimizer));
}
void LayerOptimizer::restore_state(std::span<const std::byte> state) {
  const auto optimizer = enter(state_);
  weir::restore_state(*optimizer, state, words(*optimizer));
}
void LayerOptimizer::reset() { enter(state_)->reset(); }

}  // namespace weir
