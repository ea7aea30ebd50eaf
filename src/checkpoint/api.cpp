// Implements the class of weir/checkpoint.hpp with the checkpoint's state.
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/signals.hpp"
#include "communicator/owner.hpp"
#include "embedding/table.hpp"
#include "fusion/fused.hpp"
#include "optim/layer_optimizer.hpp"
#include "plan/plan.hpp"

namespace weir {

Checkpoint::Checkpoint(const Communicator& comm, const CheckpointConfig& config)
    : state_(owned(comm.state(), [&] { return detail::make_checkpoint(comm.state(), config); })) {}

void Checkpoint::add(std::string_view name, AllreducePlan& plan) {
  const auto state = enter(state_);
  require(plan.state()->comm == state->comm, "plan '{}' is of another communicator than checkpoint '{}'", name, config().name);
  state->add(checkpoint::added_plan(std::string(name), plan.state()));
}
void Checkpoint::add(std::string_view name, EmbeddingTable& table) {
  const auto state = enter(state_);
  require(table.state()->prefetch().comm == state->comm, "table '{}' is of another communicator than checkpoint '{}'", name,
          config().name);
  state->add(checkpoint::added_table(std::string(name), table.state()));
}
void Checkpoint::add(std::string_view name, FusedAllreduce& fused) {
  const auto state = enter(state_);
  require(fused.state()->comm == state->comm, "fused '{}' is of another communicator than checkpoint '{}'", name, config().name);
  state->add(checkpoint::added_fused(std::string(name), fused.state()));
}
void Checkpoint::add(std::string_view name, LayerOptimizer& optimizer) {
  const auto state = enter(state_);
  require(optimizer.state()->comm == state->comm, "optimizer '{}' is of another communicator than checkpoint '{}'", name,
          config().name);
  state->add(checkpoint::added_optimizer(std::string(name), optimizer.state()));
}
void Checkpoint::add(std::string_view name, SparseAdam& adam) {
  const auto state = enter(state_);
  const Topology& topology = state->comm->topology;
  state->add(checkpoint::added_sparse_adam(std::string(name), adam.state(), topology.rank(), topology.size()));
}
void Checkpoint::add(std::string_view name, const StepSchedule& schedule) {
  enter(state_)->add(checkpoint::added_schedule(std::string(name), schedule));
}
void Checkpoint::add_array(std::string_view name, void* data, ElementType type, Distribution distribution, std::int64_t count,
                           std::int64_t first, std::int64_t total) {
  const auto state = enter(state_);
  const Topology& topology = state->comm->topology;
  state->add(checkpoint::added_array(std::string(name), {data, type, distribution, count, first, total}, topology.rank(),
                                     topology.size()));
}

void Checkpoint::set(std::string_view name, std::int64_t value) { enter(state_)->set(name, value); }
void Checkpoint::set(std::string_view name, double value) { enter(state_)->set(name, value); }
void Checkpoint::set(std::string_view name, std::string_view value) { enter(state_)->set(name, std::string(value)); }
std::int64_t Checkpoint::integer(std::string_view name) const { return enter(state_)->value<std::int64_t>(name, "integer"); }
double Checkpoint::real(std::string_view name) const { return enter(state_)->value<double>(name, "real number"); }
const std::string& Checkpoint::text(std::string_view name) const { return enter(state_)->value<std::string>(name, "text"); }

Operation Checkpoint::save(std::int64_t step) {
  const auto state = enter(state_);
  state->start_save(step);
  return Operation(std::shared_ptr<detail::AsynchronousCall>(*state_, &state->save()));
}
std::optional<std::int64_t> Checkpoint::restore() { return enter(state_)->restore({}); }
void Checkpoint::restore_step(std::int64_t step) { (void)enter(state_)->restore(step); }
std::vector<std::int64_t> Checkpoint::steps() const { return unguarded(state_).folder().steps(); }

void Checkpoint::catch_signal(int signal) { checkpoint::catch_signal(signal); }
bool Checkpoint::stop_requested() { return enter(state_)->stop_requested(); }

const CheckpointStatistics& Checkpoint::statistics() const { return unguarded(state_).statistics; }
const CheckpointConfig& Checkpoint::config() const { return unguarded(state_).config; }

}  // namespace weir
