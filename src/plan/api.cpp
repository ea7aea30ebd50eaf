// The classes of weir/weir.hpp over the plan's state.
#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/state_bytes.hpp"
#include "plan/plan.hpp"

namespace weir {
namespace {

void retire(std::shared_ptr<detail::PlanImpl>& plan) noexcept {
  if (!plan) return;
  const std::shared_ptr<detail::CommunicatorState> comm = plan->comm;  // ends after the plan, with nobody inside
  const auto inside = comm->enter();
  if (plan->retire())
    plan.reset();
  else
    keep_forever(std::move(plan));
}

/// With nobody else at the plan: a progress thread leaves it alone meanwhile.
[[nodiscard]] detail::ProgressThread::Inside enter(const std::shared_ptr<detail::PlanImpl>& plan) { return plan->comm->enter(); }

/// The plan, which sums in T and is not running.
template <class T>
const detail::PlanImpl& typed(const std::shared_ptr<detail::PlanImpl>& plan, std::string_view what) {
  const bool wide = plan->config.type == DataType::float64;
  require(wide == std::is_same_v<T, double>, "plan '{}': {} was asked for as another type than it has, {}", plan->config.name, what,
          wide ? "float64" : "float32");
  if (!plan->waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before asking for its {}", plan->config.name, what);
  return *plan;
}

}  // namespace

AllreducePlan::AllreducePlan(const Communicator& comm, const AllreduceConfig& config)
    : state_(comm.state()->guarded([&] { return detail::make_plan(comm.state(), config); })) {}
AllreducePlan::AllreducePlan(AllreducePlan&&) noexcept = default;
AllreducePlan& AllreducePlan::operator=(AllreducePlan&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
AllreducePlan::~AllreducePlan() { retire(state_); }

Operation AllreducePlan::start_raw(void* dense, const void* sparse_only, std::int64_t count, void* stream) {
  const auto inside = enter(state_);
  state_->start(dense, sparse_only, count, state_->config.type, stream);
  return Operation(state_);
}
Operation AllreducePlan::start(void* g, void* stream) { return start_raw(g, nullptr, state_->config.count, stream); }
Operation AllreducePlan::start_sparse(const void* g, void* stream) { return start_raw(nullptr, g, state_->config.count, stream); }
void AllreducePlan::run(void* g, void* stream) {
  const auto inside = enter(state_);
  state_->run_to_end(g, nullptr, state_->config.count, state_->config.type, stream);
}
void AllreducePlan::run_sparse(const void* g, void* stream) {
  const auto inside = enter(state_);
  state_->run_to_end(nullptr, g, state_->config.count, state_->config.type, stream);
}

namespace {
template <class T>
Operation start_typed(const std::shared_ptr<detail::PlanImpl>& plan, T* dense, const T* sparse_only, std::size_t count) {
  const auto inside = enter(plan);
  plan->start(dense, sparse_only, static_cast<std::int64_t>(count), data_type_of<T>);
  return Operation(plan);
}
template <class T>
void run_typed(const std::shared_ptr<detail::PlanImpl>& plan, T* dense, const T* sparse_only, std::size_t count) {
  const auto inside = enter(plan);
  plan->run_to_end(dense, sparse_only, static_cast<std::int64_t>(count), data_type_of<T>);
}
}  // namespace

Operation AllreducePlan::start(std::span<float> g) { return start_typed<float>(state_, g.data(), nullptr, g.size()); }
Operation AllreducePlan::start(std::span<double> g) { return start_typed<double>(state_, g.data(), nullptr, g.size()); }
Operation AllreducePlan::start_sparse(std::span<const float> g) { return start_typed<float>(state_, nullptr, g.data(), g.size()); }
Operation AllreducePlan::start_sparse(std::span<const double> g) {
  return start_typed<double>(state_, nullptr, g.data(), g.size());
}
void AllreducePlan::run(std::span<float> g) { run_typed<float>(state_, g.data(), nullptr, g.size()); }
void AllreducePlan::run(std::span<double> g) { run_typed<double>(state_, g.data(), nullptr, g.size()); }
void AllreducePlan::run_sparse(std::span<const float> g) { run_typed<float>(state_, nullptr, g.data(), g.size()); }
void AllreducePlan::run_sparse(std::span<const double> g) { run_typed<double>(state_, nullptr, g.data(), g.size()); }

template <class T>
SparseView<T> AllreducePlan::sparse_result() const {
  const auto inside = enter(state_);
  const detail::AnyVector update = typed<T>(state_, "sparse result").update();
  const auto count = static_cast<std::size_t>(update.count);
  return {{update.indices, count}, {static_cast<const T*>(update.values), count}};
}
template SparseView<float> AllreducePlan::sparse_result() const;
template SparseView<double> AllreducePlan::sparse_result() const;

template <class T>
std::span<const T> AllreducePlan::residual() const {
  const auto inside = enter(state_);
  const detail::AnyVector residual = typed<T>(state_, "residual").residual();
  return {static_cast<const T*>(residual.values), static_cast<std::size_t>(residual.count)};
}
template std::span<const float> AllreducePlan::residual() const;
template std::span<const double> AllreducePlan::residual() const;

const std::string& AllreducePlan::explanation() const { return state_->explanation; }
std::int64_t AllreducePlan::residual_begin() const { return state_->residual_begin(); }
const Statistics& AllreducePlan::statistics() const { return state_->statistics; }
const AllreduceConfig& AllreducePlan::config() const { return state_->config; }
std::int64_t AllreducePlan::memory_bytes() const {
  const auto inside = enter(state_);
  return state_->memory_bytes();
}
std::int64_t AllreducePlan::state_bytes() const {
  const auto inside = enter(state_);
  return weir::state_bytes(*state_);
}
void AllreducePlan::save_state(std::span<std::byte> state) const {
  const auto inside = enter(state_);
  weir::save_state(*state_, state, fmt::format("plan '{}'", state_->config.name));
}
void AllreducePlan::restore_state(std::span<const std::byte> state) {
  const auto inside = enter(state_);
  weir::restore_state(*state_, state, fmt::format("plan '{}'", state_->config.name));
}
std::int64_t AllreducePlan::encoded_bytes() const {
  const auto inside = enter(state_);
  return state_->encoded_bytes();
}
std::int64_t AllreducePlan::encode(std::span<const float> gradient, std::span<std::byte> out) {
  const auto inside = enter(state_);
  return state_->encode(gradient, out);
}
void AllreducePlan::reset() {
  const auto inside = enter(state_);
  if (!state_->waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before resetting it", state_->config.name);
  state_->reset();
}
void AllreducePlan::scale_residual(double factor) {
  const auto inside = enter(state_);
  if (!state_->waited_for()) fail(WEIR_ERR_BUSY, "plan '{}' is running: wait before scaling its residual", state_->config.name);
  check_scale(factor, state_->config.type, fmt::format("plan '{}'", state_->config.name));
  state_->scale(factor);
}

}  // namespace weir
