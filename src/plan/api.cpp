// The classes of weir/weir.hpp over the plan's state.
#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/state_bytes.hpp"
#include "communicator/owner.hpp"
#include "plan/plan.hpp"

namespace weir {
namespace {

/// Returns the plan, which must sum in T and must not be running.
template <class T>
const detail::PlanImpl& typed(const detail::PlanImpl& plan, std::string_view what) {
  const bool wide = plan.config.type == DataType::float64;
  require(wide == std::is_same_v<T, double>, "plan '{}': {} was asked for as another type than it has, {}", plan.config.name, what,
          wide ? "float64" : "float32");
  if (!plan.waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before asking for its {}", plan.config.name, what);
  return plan;
}

std::string words(const detail::PlanImpl& plan) { return fmt::format("plan '{}'", plan.config.name); }

}  // namespace

AllreducePlan::AllreducePlan(const Communicator& comm, const AllreduceConfig& config)
    : state_(owned(comm.state(), [&] { return detail::make_plan(comm.state(), config); })) {}

Operation AllreducePlan::start_raw(void* dense, const void* sparse_only, std::int64_t count, void* stream) {
  enter(state_)->start(dense, dense != nullptr ? dense : sparse_only, count, config().type, stream);
  return Operation(*state_);
}
Operation AllreducePlan::start(void* g, void* stream) { return start_raw(g, nullptr, config().count, stream); }
Operation AllreducePlan::start_sparse(const void* g, void* stream) { return start_raw(nullptr, g, config().count, stream); }
void AllreducePlan::run(void* g, void* stream) { enter(state_)->run_to_end(g, g, config().count, config().type, stream); }
void AllreducePlan::run_sparse(const void* g, void* stream) {
  enter(state_)->run_to_end(nullptr, g, config().count, config().type, stream);
}

namespace {
template <class T>
Operation start_typed(const detail::Owner<detail::PlanImpl>& plan, T* dense, std::span<const T> g) {
  enter(plan)->start(dense, g.data(), std::ssize(g), data_type_of<T>);
  return Operation(*plan);
}
template <class T>
void run_typed(const detail::Owner<detail::PlanImpl>& plan, T* dense, std::span<const T> g) {
  enter(plan)->run_to_end(dense, g.data(), std::ssize(g), data_type_of<T>);
}
}  // namespace

Operation AllreducePlan::start(std::span<float> g) { return start_typed<float>(state_, g.data(), g); }
Operation AllreducePlan::start(std::span<double> g) { return start_typed<double>(state_, g.data(), g); }
Operation AllreducePlan::start_sparse(std::span<const float> g) { return start_typed<float>(state_, nullptr, g); }
Operation AllreducePlan::start_sparse(std::span<const double> g) { return start_typed<double>(state_, nullptr, g); }
void AllreducePlan::run(std::span<float> g) { run_typed<float>(state_, g.data(), g); }
void AllreducePlan::run(std::span<double> g) { run_typed<double>(state_, g.data(), g); }
void AllreducePlan::run_sparse(std::span<const float> g) { run_typed<float>(state_, nullptr, g); }
void AllreducePlan::run_sparse(std::span<const double> g) { run_typed<double>(state_, nullptr, g); }

template <class T>
SparseView<T> AllreducePlan::sparse_result() const {
  const detail::AnyVector update = typed<T>(*enter(state_), "sparse result").update();
  const auto count = static_cast<std::size_t>(update.count);
  return {{update.indices, count}, {static_cast<const T*>(update.values), count}};
}
template SparseView<float> AllreducePlan::sparse_result() const;
template SparseView<double> AllreducePlan::sparse_result() const;

template <class T>
std::span<const T> AllreducePlan::residual() const {
  const detail::AnyVector residual = typed<T>(*enter(state_), "residual").residual();
  return {static_cast<const T*>(residual.values), static_cast<std::size_t>(residual.count)};
}
template std::span<const float> AllreducePlan::residual() const;
template std::span<const double> AllreducePlan::residual() const;

std::int64_t AllreducePlan::counter(std::string_view name) const { return enter(state_)->counter(name); }
const std::string& AllreducePlan::explanation() const { return unguarded(state_).explanation; }
std::int64_t AllreducePlan::residual_begin() const { return unguarded(state_).residual_begin(); }
const Statistics& AllreducePlan::statistics() const { return unguarded(state_).statistics; }
const AllreduceConfig& AllreducePlan::config() const { return unguarded(state_).config; }
std::int64_t AllreducePlan::memory_bytes() const { return enter(state_)->memory_bytes(); }
std::int64_t AllreducePlan::state_bytes() const { return weir::state_bytes(*enter(state_)); }
void AllreducePlan::save_state(std::span<std::byte> state) const {
  const auto plan = enter(state_);
  weir::save_state(*plan, state, words(*plan));
}
void AllreducePlan::restore_state(std::span<const std::byte> state) {
  const auto plan = enter(state_);
  weir::restore_state(*plan, state, words(*plan));
}
std::int64_t AllreducePlan::encoded_bytes() const { return enter(state_)->encoded_bytes(); }
std::int64_t AllreducePlan::encode(std::span<const float> gradient, std::span<std::byte> out) {
  return enter(state_)->encode(gradient, out);
}
void AllreducePlan::reset() {
  const auto plan = enter(state_);
  if (!plan->waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before resetting it", plan->config.name);
  plan->reset();
}
void AllreducePlan::scale_residual(double factor) {
  const auto plan = enter(state_);
  if (!plan->waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before scaling its residual", plan->config.name);
  check_scale(factor, plan->config.type, words(*plan));
  plan->scale(factor);
}

}  // namespace weir
