// Implements the class of weir/checkpoint.hpp with the checkpoint's state.
#include "base/config_check.hpp"
#include "base/error.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/signals.hpp"
#include "communicator/owner.hpp"
#include "embedding/table.hpp"
#include "fusion/fused.hpp"
#include "optim/layer_optimizer.hpp"
#include "optim/sparse_adam.hpp"
#include "plan/plan.hpp"

namespace weir {
namespace {

using checkpoint::Kind;
using checkpoint::Purpose;
using checkpoint::Values;

template <class Config>
Values values_of(const Config& config) {
  Values values;
  visit_fields(config, [&](const FieldInfo& field, const auto& value) {
    using V = std::remove_cvref_t<decltype(value)>;
    checkpoint::Value& to = values[std::string(field.name)];
    if constexpr (std::is_enum_v<V>)
      to = std::string(name_of(value));
    else if constexpr (std::is_same_v<V, std::string>)
      to = value;
    else if constexpr (std::is_floating_point_v<V>)
      to = static_cast<double>(value);
    else
      to = static_cast<std::int64_t>(value);
  });
  return values;
}

/// Returns an object as a subject, which does not keep it alive. visit(object, visitor, purpose) visits its state.
template <class Impl, class Visit>
checkpoint::AddedSubject added(Kind kind, std::string_view given, const std::shared_ptr<Impl>& impl, Visit visit) {
  const std::string name(given);
  const auto alive = [weak = std::weak_ptr(impl), kind, name] {
    std::shared_ptr<Impl> there = weak.lock();
    if (!there)
      fail(WEIR_ERR_STATE, "{} '{}' was destroyed: a checkpoint that it was added to saves and restores no more", word_of(kind),
           name);
    return there;
  };
  const auto about = [alive] {
    const std::shared_ptr<Impl> there = alive();
    if constexpr (requires { there->config(); })
      return values_of(there->config());
    else
      return values_of(there->config);
  };
  return {kind, name, [=](StateVisitor& visitor, Purpose purpose) { visit(*alive(), visitor, purpose); }, about};
}

constexpr auto visit_all = [](auto& object, StateVisitor& visitor, Purpose /*purpose*/) { object.visit_state(visitor); };

/// Adds an object of the checkpoint's communicator.
template <class Impl, class Visit>
void add_shared(detail::CheckpointState& state, Kind kind, std::string_view name, const std::shared_ptr<Impl>& impl, Visit visit) {
  require(communicator_of(*impl) == state.comm, "{} '{}' is of another communicator than checkpoint '{}'", word_of(kind), name,
          state.config.name);
  state.add(added(kind, name, impl, visit));
}

}  // namespace

Checkpoint::Checkpoint(const Communicator& comm, const CheckpointConfig& config)
    : state_(owned(comm.state(), [&] { return detail::make_checkpoint(comm.state(), config); })) {}

void Checkpoint::add(std::string_view name, AllreducePlan& plan) {
  add_shared(*enter(state_), Kind::plan, name, plan.state(), visit_all);
}
void Checkpoint::add(std::string_view name, EmbeddingTable& table) {
  add_shared(*enter(state_), Kind::table, name, table.state(), visit_all);
}
void Checkpoint::add(std::string_view name, FusedAllreduce& fused) {
  add_shared(*enter(state_), Kind::fused, name, fused.state(), visit_all);
}
void Checkpoint::add(std::string_view name, LayerOptimizer& optimizer) {
  add_shared(*enter(state_), Kind::optimizer, name, optimizer.state(),
             [](detail::OptimizerImpl& object, StateVisitor& visitor, Purpose purpose) {
               object.visit_state(visitor, purpose == Purpose::save);
             });
}
void Checkpoint::add(std::string_view name, SparseAdam& adam) {
  const auto state = enter(state_);
  const int rank = state->comm->topology.rank(), ranks = state->comm->topology.size();
  state->add(
      added(Kind::optimizer, name, adam.state(), [=](detail::SparseAdamState& object, StateVisitor& visitor, Purpose purpose) {
        const std::int64_t all = object.config.count;
        if (purpose == Purpose::restore) return object.visit_state(visitor, 0, all);
        object.visit_state(visitor, checkpoint::part_begin_of(all, rank, ranks), checkpoint::part_begin_of(all, rank + 1, ranks));
      }));
}
void Checkpoint::add(std::string_view name, const StepSchedule& schedule) {
  const auto visit = [there = &schedule](StateVisitor& visitor, Purpose) {
    std::string blocks;
    for (const std::string_view block : there->blocks()) blocks.append(blocks.empty() ? "" : "\n").append(block);
    visitor.text("blocks", blocks);
  };
  enter(state_)->add({Kind::schedule, std::string(name), visit, [] { return Values{}; }});
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
std::int64_t Checkpoint::integer(std::string_view name) const { return std::get<0>(enter(state_)->value(name, 0)); }
double Checkpoint::real(std::string_view name) const { return std::get<1>(enter(state_)->value(name, 1)); }
const std::string& Checkpoint::text(std::string_view name) const { return std::get<2>(enter(state_)->value(name, 2)); }

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
