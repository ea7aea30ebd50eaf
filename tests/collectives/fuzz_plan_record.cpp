#include "fuzz_plan_record.hpp"

#include <limits>
#include <optional>

#include "support/other_floating_point.hpp"

namespace weir::test {
namespace {

template <class T>
void poison(const RunCase& run, std::vector<T>& gradient) {
  const auto at = static_cast<std::size_t>(run.bad_element);
  for (std::size_t i = 1; i <= static_cast<std::size_t>(run.nans); ++i)
    gradient[(at + i) % gradient.size()] = std::numeric_limits<T>::quiet_NaN();
  gradient[at] = static_cast<T>(run.poison);
}

template <class T>
class TypedFuzzedPlan final : public FuzzedPlan {
 public:
  TypedFuzzedPlan(const PlanCase& plan, const std::vector<Location>& locations)
      : plan_(plan), record_{plan, locations, std::vector<std::vector<Ended<T>>>(locations.size())}, on_(locations.size()) {}

  void make_plan(const Communicator& comm, int priority) override {
    AllreduceConfig config = plan_.config;
    config.priority = priority;
    of(comm.rank()).plan.emplace(comm, config);
  }

  void start(int rank) override {
    OnRank& on = of(rank);
    const RunCase& run = plan_.runs[on.started];
    Ended<T>& ended = record_.of_rank[index(rank)].emplace_back();
    ended.given =
        make_input<T>(plan_.input, plan_.config.count, rank, record_.ranks(), plan_.first_iteration + static_cast<int>(on.started));
    const bool bad = rank == run.bad_rank;
    if (run.trouble == Trouble::poison && bad) poison(run, ended.given);
    ended.dense = ended.given;
    ++on.started;
    if (run.reset_before) on.plan->reset();
    try {
      const OtherFloatingPoint other(rank == plan_.disturbed_rank);
      on.operation.emplace(bad ? start_badly(*on.plan, run, ended.dense) : start_well(*on.plan, run, ended.dense));
    } catch (const Error& error) {
      take(on, ended, error.status(), error.what());
    }
  }

  bool test(int rank) override {
    return end(rank, [](Operation& operation) { return operation.test(); });
  }
  void wait(int rank) override {
    end(rank, [](Operation& operation) {
      operation.wait();
      return true;
    });
  }

  void drop_plan(int rank) override { of(rank).plan.reset(); }
  [[nodiscard]] std::size_t started(int rank) const override { return on_[index(rank)].started; }
  [[nodiscard]] bool in_flight(int rank) const override { return on_[index(rank)].operation.has_value(); }
  [[nodiscard]] std::string fault() const override { return fault_of(record_); }

 private:
  struct OnRank {
    std::optional<AllreducePlan> plan;
    std::optional<Operation> operation;
    std::size_t started = 0;
  };
  [[nodiscard]] static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  OnRank& of(int rank) { return on_[index(rank)]; }

  static Operation start_well(AllreducePlan& plan, const RunCase& run, std::vector<T>& gradient) {
    if (run.in_place) return plan.start(std::span<T>(gradient));
    return plan.start_sparse(std::span<const T>(gradient));
  }

  static Operation start_badly(AllreducePlan& plan, const RunCase& run, std::vector<T>& gradient) {
    using Other = std::conditional_t<sizeof(T) == 4, double, float>;
    static T one{};
    static Other other{};
    const std::size_t count = gradient.size();
    switch (run.trouble) {
      case Trouble::wrong_count:
        return plan.start(count == 0 ? std::span<T>(&one, 1) : std::span<T>(gradient).first(count - 1));
      case Trouble::wrong_type:
        return plan.start(std::span<Other>(&other, count));  // refused before anything is read
      case Trouble::null_pointer:
        return plan.start_raw(nullptr, nullptr, static_cast<std::int64_t>(count));
      default:
        return start_well(plan, run, gradient);
    }
  }

  template <class Finish>
  bool end(int rank, Finish finish) {
    OnRank& on = of(rank);
    Ended<T>& ended = record_.of_rank[index(rank)].back();
    try {
      const OtherFloatingPoint other(rank == plan_.disturbed_rank);
      if (!finish(*on.operation)) return false;
      take(on, ended, WEIR_OK, "");
    } catch (const Error& error) {
      take(on, ended, error.status(), error.what());
    }
    return true;
  }

  void take(OnRank& on, Ended<T>& ended, weir_status status, const std::string& text) {
    on.operation.reset();
    ended.status = status;
    ended.error = text;
    const AllreducePlan& plan = *on.plan;
    const SparseView<T> update = plan.sparse_result<T>();
    ended.indices.assign(update.indices.begin(), update.indices.end());
    ended.values.assign(update.values.begin(), update.values.end());
    ended.residual.assign(plan.residual<T>().begin(), plan.residual<T>().end());
    ended.residual_begin = plan.residual_begin();
    ended.algorithm = plan.config().algorithm;
    ended.statistics = plan.statistics();
  }

  const PlanCase& plan_;
  Record<T> record_;
  std::vector<OnRank> on_;
};

}  // namespace

std::unique_ptr<FuzzedPlan> FuzzedPlan::make(const PlanCase& plan, const std::vector<Location>& locations) {
  if (plan.config.type == DataType::float64) return std::make_unique<TypedFuzzedPlan<double>>(plan, locations);
  return std::make_unique<TypedFuzzedPlan<float>>(plan, locations);
}

}  // namespace weir::test
