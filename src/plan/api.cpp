// The classes of weir/weir.hpp over the plan's state.
#include "base/error.hpp"
#include "plan/plan.hpp"
#include "plan/typed_plan.hpp"

namespace weir {
namespace {

void retire(std::shared_ptr<detail::PlanState>& plan) noexcept {
  if (!plan) return;
  detail::retire(*plan);
  if (plan->broken) detail::keep_forever(std::move(plan));
}

template <class T>
const detail::TypedPlan<T>& typed(const std::shared_ptr<detail::PlanState>& plan, std::string_view what) {
  require(plan->config.type == data_type_of<T>, "plan '{}': {} was asked for as another type than the plan's", plan->config.name,
          what);
  if (!plan->run.finished) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before asking for its {}", plan->config.name, what);
  return static_cast<const detail::TypedPlan<T>&>(*plan);
}

}  // namespace

AllreducePlan::AllreducePlan(const Communicator& comm, const AllreduceConfig& config)
    : state_(detail::make_plan(comm.state(), config)) {}
AllreducePlan::AllreducePlan(AllreducePlan&&) noexcept = default;
AllreducePlan& AllreducePlan::operator=(AllreducePlan&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
AllreducePlan::~AllreducePlan() { retire(state_); }

Operation AllreducePlan::start_raw(void* dense, const void* sparse_only, std::int64_t count) {
  state_->start(dense, sparse_only, count, state_->config.type);
  return Operation(state_);
}

namespace {
template <class T>
Operation start_typed(const std::shared_ptr<detail::PlanState>& plan, T* dense, const T* sparse_only, std::size_t count) {
  plan->start(dense, sparse_only, static_cast<std::int64_t>(count), data_type_of<T>);
  return Operation(plan);
}
}  // namespace

Operation AllreducePlan::start(std::span<float> g) { return start_typed<float>(state_, g.data(), nullptr, g.size()); }
Operation AllreducePlan::start(std::span<double> g) { return start_typed<double>(state_, g.data(), nullptr, g.size()); }
Operation AllreducePlan::start_sparse(std::span<const float> g) { return start_typed<float>(state_, nullptr, g.data(), g.size()); }
Operation AllreducePlan::start_sparse(std::span<const double> g) {
  return start_typed<double>(state_, nullptr, g.data(), g.size());
}
void AllreducePlan::run(std::span<float> g) { start(g).wait(); }
void AllreducePlan::run(std::span<double> g) { start(g).wait(); }
void AllreducePlan::run_sparse(std::span<const float> g) { start_sparse(g).wait(); }
void AllreducePlan::run_sparse(std::span<const double> g) { start_sparse(g).wait(); }

template <class T>
SparseView<T> AllreducePlan::sparse_result() const {
  const SparseVector<T> update = typed<T>(state_, "sparse result").update();
  return {update.index_span(), {update.values, static_cast<std::size_t>(update.count)}};
}
template SparseView<float> AllreducePlan::sparse_result() const;
template SparseView<double> AllreducePlan::sparse_result() const;

template <class T>
std::span<const T> AllreducePlan::residual() const {
  return typed<T>(state_, "residual").residual();
}
template std::span<const float> AllreducePlan::residual() const;
template std::span<const double> AllreducePlan::residual() const;

const std::string& AllreducePlan::explanation() const { return state_->explanation; }
std::int64_t AllreducePlan::residual_begin() const { return state_->residual_begin(); }
const Statistics& AllreducePlan::statistics() const { return state_->statistics; }
const AllreduceConfig& AllreducePlan::config() const { return state_->config; }
std::int64_t AllreducePlan::memory_bytes() const { return state_->memory_bytes(); }
void AllreducePlan::reset() {
  if (!state_->run.finished) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before resetting it", state_->config.name);
  state_->reset();
}

bool Operation::test() {
  in_flight_->comm->engine.poll();
  if (!in_flight_->run.finished) return false;
  in_flight_->finish();
  return true;
}

void Operation::wait() { in_flight_->wait(); }

}  // namespace weir
