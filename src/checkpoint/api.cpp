// The class of weir/checkpoint.hpp over the checkpoint's state.
#include "base/error.hpp"
#include "base/keep.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/signals.hpp"
#include "embedding/table.hpp"
#include "fusion/fused.hpp"
#include "optim/layer_optimizer.hpp"
#include "plan/plan.hpp"

namespace weir {
namespace {

void retire(std::shared_ptr<detail::CheckpointState>& state) noexcept {
  if (!state) return;
  const std::shared_ptr<detail::CommunicatorState> comm = state->comm;  // ends after the checkpoint, with nobody inside
  const auto inside = comm->enter();
  if (state->retire())
    state.reset();
  else
    keep_forever(std::move(state));
}

/// With nobody else at the checkpoint: a progress thread leaves it alone meanwhile.
[[nodiscard]] detail::ProgressThread::Inside enter(const std::shared_ptr<detail::CheckpointState>& state) {
  return state->comm->enter();
}

}  // namespace

Checkpoint::Checkpoint(const Communicator& comm, const CheckpointConfig& config)
    : state_(comm.state()->guarded([&] { return detail::make_checkpoint(comm.state(), config); })) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
Checkpoint::~Checkpoint() { retire(state_); }

void Checkpoint::add(std::string_view name, AllreducePlan& plan) {
  const auto inside = enter(state_);
  require(plan.state()->comm == state_->comm, "plan '{}' is of another communicator than checkpoint '{}'", name, config().name);
  state_->add(checkpoint::added_plan(std::string(name), plan.state()));
}
void Checkpoint::add(std::string_view name, EmbeddingTable& table) {
  const auto inside = enter(state_);
  require(table.state()->prefetch().comm == state_->comm, "table '{}' is of another communicator than checkpoint '{}'", name,
          config().name);
  state_->add(checkpoint::added_table(std::string(name), table.state()));
}
void Checkpoint::add(std::string_view name, FusedAllreduce& fused) {
  const auto inside = enter(state_);
  require(fused.state()->comm == state_->comm, "fused '{}' is of another communicator than checkpoint '{}'", name, config().name);
  state_->add(checkpoint::added_fused(std::string(name), fused.state()));
}
void Checkpoint::add(std::string_view name, LayerOptimizer& optimizer) {
  const auto inside = enter(state_);
  require(optimizer.state()->comm == state_->comm, "optimizer '{}' is of another communicator than checkpoint '{}'", name,
          config().name);
  state_->add(checkpoint::added_optimizer(std::string(name), optimizer.state()));
}
void Checkpoint::add(std::string_view name, SparseAdam& adam) {
  const auto inside = enter(state_);
  const Topology& topology = state_->comm->topology;
  state_->add(checkpoint::added_sparse_adam(std::string(name), adam.state(), topology.rank(), topology.size()));
}
void Checkpoint::add(std::string_view name, const StepSchedule& schedule) {
  const auto inside = enter(state_);
  state_->add(checkpoint::added_schedule(std::string(name), schedule));
}
void Checkpoint::add_array(std::string_view name, void* data, ElementType type, Distribution distribution, std::int64_t count,
                           std::int64_t first, std::int64_t total) {
  const auto inside = enter(state_);
  const Topology& topology = state_->comm->topology;
  state_->add(checkpoint::added_array(std::string(name), {data, type, distribution, count, first, total}, topology.rank(),
                                      topology.size()));
}

void Checkpoint::set(std::string_view name, std::int64_t value) {
  const auto inside = enter(state_);
  state_->set(name, value);
}
void Checkpoint::set(std::string_view name, double value) {
  const auto inside = enter(state_);
  state_->set(name, value);
}
void Checkpoint::set(std::string_view name, std::string_view value) {
  const auto inside = enter(state_);
  state_->set(name, std::string(value));
}
std::int64_t Checkpoint::integer(std::string_view name) const {
  const auto inside = enter(state_);
  return state_->value<std::int64_t>(name, "integer");
}
double Checkpoint::real(std::string_view name) const {
  const auto inside = enter(state_);
  return state_->value<double>(name, "real number");
}
const std::string& Checkpoint::text(std::string_view name) const {
  const auto inside = enter(state_);
  return state_->value<std::string>(name, "text");
}

Operation Checkpoint::save(std::int64_t step) {
  const auto inside = enter(state_);
  state_->start_save(step);
  return Operation(std::shared_ptr<detail::AsynchronousCall>(state_, &state_->save()));
}
std::optional<std::int64_t> Checkpoint::restore() {
  const auto inside = enter(state_);
  return state_->restore({});
}
void Checkpoint::restore_step(std::int64_t step) {
  const auto inside = enter(state_);
  (void)state_->restore(step);
}
std::vector<std::int64_t> Checkpoint::steps() const { return state_->folder().steps(); }

void Checkpoint::catch_signal(int signal) { checkpoint::catch_signal(signal); }
bool Checkpoint::stop_requested() {
  const auto inside = enter(state_);
  return state_->stop_requested();
}

const CheckpointStatistics& Checkpoint::statistics() const { return state_->statistics; }
const CheckpointConfig& Checkpoint::config() const { return state_->config; }

}  // namespace weir
