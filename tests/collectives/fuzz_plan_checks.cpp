// Checks the properties that the runs of every plan must have.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

#include "collectives/allreduce.hpp"
#include "collectives/oktopk_volume.hpp"
#include "contribution/threshold.hpp"
#include "fuzz_plan_record.hpp"
#include "plan/plan_config.hpp"
#include "support/oracle.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

template <class T>
class Checker {
 public:
  explicit Checker(const Record<T>& record)
      : record_(record),
        config_(record.plan.config),
        n_(static_cast<std::size_t>(config_.count)),
        nested_(Topology(record.locations, 0).largest_node() > 1),
        compressor_(config_.algorithm.starts_with("auto") ? compress::Compressor{} : compressor_of(config_)) {}

  std::string fault() {
    for (t_ = 0; t_ < record_.plan.runs.size() && check_.failure().empty(); ++t_) {
      run_ = &record_.plan.runs[t_];
      if (run_->reset_before) forget();
      row_ = config_.algorithm.starts_with("auto") ? &find_allreduce(at(0).algorithm) : &find_allreduce(config_.algorithm);
      check_run();
      ++age_;
    }
    return check_.failure();
  }

 private:
  [[nodiscard]] const Ended<T>& at(int rank) const { return record_.of_rank[static_cast<std::size_t>(rank)][t_]; }
  [[nodiscard]] int ranks() const { return record_.ranks(); }
  void that(bool condition, const std::string& what) {
    if (!condition) check_.that(false, fmt::format("{}, run {}: {}", config_.name, t_, what));
  }
  void forget() {
    age_ = 0;
    last_k_ = std::numeric_limits<std::int64_t>::max();
    oracle_.reset();
    untroubled_ = true;
    old_.clear();
  }

  [[nodiscard]] bool keeps_residual() const {
    return compressor_ ? feedback_of(config_, compressor_) != Feedback::none : config_.error_feedback != Feedback::none;
  }
  /// Returns whether velocities are compressed instead of gradients.
  [[nodiscard]] bool keeps_velocity() const { return feedback_rules(config_, compressor_, ranks()).uses_velocity(); }
  [[nodiscard]] bool is_of(std::string_view compressor) const { return compressor_ && compressor_.row->name == compressor; }
  [[nodiscard]] bool is_linear() const { return compressor_ && compressor_.row->carriage == compress::Carriage::linear; }
  [[nodiscard]] bool is_dense() const { return row_->dense() || age_ < config_.dense_iterations; }
  /// Returns whether sums are exact, up to rounding.
  [[nodiscard]] bool loses_nothing() const { return keeps_residual() || is_void() || (is_dense() && !is_linear()); }
  [[nodiscard]] bool is_packed() const { return row_->packed() && !is_dense(); }
  [[nodiscard]] bool poisoned() const { return run_->trouble == Trouble::poison; }
  [[nodiscard]] weir_status right_status() const {
    if (run_->trouble == Trouble::none) return WEIR_OK;
    if (!poisoned()) return WEIR_ERR_ARGUMENT;
    return config_.non_finite == NonFinite::error ? WEIR_ERR_NON_FINITE : WEIR_OK;
  }
  /// Returns whether this run delivers nothing of its gradients.
  [[nodiscard]] bool is_void() const { return right_status() != WEIR_OK || (poisoned() && config_.non_finite == NonFinite::skip); }

  void check_run() {
    for (int rank = 0; rank < ranks(); ++rank) check_end(rank);
    if (!check_.failure().empty()) return;
    if (right_status() == WEIR_OK) {
      for (int rank = 0; rank < ranks(); ++rank) check_update(rank);
      check_k();
    }
    if (!keeps_velocity() && loses_nothing())
      check_conservation();
    else if (config_.compressor.empty())
      check_size();
    // The oracle does not know the rounding of runs after a faulty one.
    untroubled_ &= run_->trouble == Trouble::none;
    if (untroubled_ && has_oracle()) check_oracle();
  }

  void check_end(int rank) {
    const Ended<T>& mine = at(rank);
    const std::string who = fmt::format("rank {}: ", rank);
    that(mine.status == right_status(), who + fmt::format("status {} where {} is right: {}", static_cast<int>(mine.status),
                                                          static_cast<int>(right_status()), mine.error));
    that(mine.error == at(0).error, who + "'" + mine.error + "' where rank 0 has '" + at(0).error + "'");
    that(mine.algorithm == at(0).algorithm, who + "runs " + mine.algorithm + ", rank 0 " + at(0).algorithm);
    if (right_status() != WEIR_OK || !run_->in_place) that(same_bits<T>(mine.dense, mine.given), who + "the gradient was written");
  }

  void check_update(int rank) {
    const Ended<T>&mine = at(rank), &first = at(0);
    const std::string who = fmt::format("rank {}: ", rank);
    that(mine.statistics.skipped == (is_void()), who + "skipped");
    that(mine.indices == first.indices, who + "other indices than rank 0");
    that(same_bits<T>(mine.values, first.values), who + "other values than rank 0");
    if (run_->in_place) that(same_bits<T>(mine.dense, first.dense), who + "another dense result than rank 0");
    if (is_void()) {
      that(mine.indices.empty(), who + "an update where nothing is delivered");
      if (run_->in_place) that(same_bits<T>(mine.dense, std::vector<T>(n_)), who + "skipped, and the result is not zero");
    }
    if (is_dense() || is_packed()) {
      that(mine.indices.empty(), who + "a sparse result of a dense run");
      return;
    }
    that(std::is_sorted(mine.indices.begin(), mine.indices.end(), std::less_equal<>()), who + "indices are not ascending");
    that(mine.indices.empty() || mine.indices.back() < n_, who + "an index beyond the end");
    that(mine.indices.size() == static_cast<std::size_t>(mine.statistics.selected_global), who + "selected_global");
    that(mine.statistics.k == first.statistics.k, who + "another k than rank 0");
    if (run_->in_place) that(same_bits<T>(mine.dense, expanded(mine)), who + "the dense result is not the sparse one");
    check_volume(mine, who);
  }

  void check_k() {
    const std::int64_t k = at(0).statistics.k, target = final_k(config_);
    if (is_dense() || is_packed()) return;
    if (age_ >= config_.dense_iterations + config_.warmup_iterations)
      that(k == target, fmt::format("k {} where {} is right", k, target));
    that(k >= target && k <= last_k_, fmt::format("k {} after {}, on the way to {}", k, last_k_, target));
    last_k_ = k;
    const ThresholdMethod threshold = threshold_of(config_, row_->threshold);
    std::int64_t most = threshold.at_most_k() || (!row_->delivers_all && threshold.period() == 0) ? k : k + k / 4 + ranks();
    if (row_->delivers_all) most *= ranks();
    check_.at_most(at(0).statistics.selected_global, std::min(most, config_.count),
                   fmt::format("{}, run {}: entries", config_.name, t_));
  }

  void check_volume(const Ended<T>& mine, const std::string& who) {
    if (row_->name != "oktopk" || config_.wire_values != WireValues::native || record_.plan.schedule == ExchangeSchedule::automatic)
      return;
    const Statistics& s = mine.statistics;
    const std::int64_t bound = oktopk_payload_words(s.k, ranks(), record_.plan.schedule, record_.plan.radix) * 4 *
                               static_cast<std::int64_t>(sizeof(T) + 4) / 8;
    if (threshold_of(config_, {}).at_most_k())
      that(std::max(s.payload_bytes_sent, s.payload_bytes_received) <= bound, who + "payload beyond the bound");
  }

  [[nodiscard]] std::vector<T> expanded(const Ended<T>& ended) const {
    std::vector<T> dense(n_);
    for (std::size_t i = 0; i < ended.indices.size(); ++i) dense[ended.indices[i]] = ended.values[i];
    return dense;
  }
  /// Returns the delivered update as a sum.
  [[nodiscard]] std::vector<double> delivered() const {
    std::vector<double> sums(n_);
    if (is_void()) return sums;
    const std::vector<T> dense = is_dense() || is_packed() ? at(0).dense : expanded(at(0));
    for (std::size_t i = 0; i < n_; ++i) sums[i] = static_cast<double>(dense[i]) * (config_.average ? ranks() : 1);
    return sums;
  }

  struct Sums {
    std::vector<double> total, magnitude;
    explicit Sums(std::size_t n) : total(n), magnitude(n) {}
    void add(std::size_t i, T value) {
      total[i] += static_cast<double>(value);
      magnitude[i] += std::abs(static_cast<double>(value));
    }
  };

  [[nodiscard]] static double largest_of(const std::vector<double>& values) {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  }

  /// Checks that sum over ranks (gradient + old residual) = sum over ranks (new residual) + sum delivered, up to rounding.
  void check_conservation() {
    Sums before(n_), after(n_);
    for (int rank = 0; rank < ranks(); ++rank) {
      const Ended<T>& mine = at(rank);
      for (std::size_t i = 0; i < n_; ++i) {
        // A void gradient is added and taken back, so that only its magnitude counts, if it is finite.
        if (!is_void() || std::isfinite(mine.given[i])) before.add(i, mine.given[i]);
        if (is_void() && std::isfinite(mine.given[i])) before.total[i] -= static_cast<double>(mine.given[i]);
      }
      for (std::size_t i = 0; i < mine.residual.size(); ++i)
        after.add(static_cast<std::size_t>(mine.residual_begin) + i, mine.residual[i]);
    }
    // Factors mix elements of all sizes.
    if (is_linear()) std::fill(before.magnitude.begin(), before.magnitude.end(), 16 * largest_of(before.magnitude));
    const bool finite_so_far = old_.empty() || std::all_of(old_.begin(), old_.end(), [](double x) { return std::isfinite(x); });
    const std::vector<double> update = delivered();
    for (std::size_t i = 0; i < n_; ++i) {
      if (!old_.empty()) {
        before.total[i] += old_[i];
        before.magnitude[i] += old_magnitude_[i];
      }
      const double lost = before.total[i] - after.total[i] - update[i];
      const bool may_be_wild = config_.non_finite == NonFinite::propagate && (poisoned() || !finite_so_far);
      if (may_be_wild && (is_packed() || is_linear() || !std::isfinite(before.total[i]))) continue;  // a bucket is wild as a whole
      // Compressors deliver means of elements of other magnitudes.
      const double size = before.magnitude[i] + (config_.compressor.empty() ? 0 : after.magnitude[i] + std::abs(update[i]));
      const double rounding = 8 * static_cast<double>(std::numeric_limits<T>::epsilon()) * size +
                              8 * static_cast<double>(std::numeric_limits<T>::denorm_min());
      that(std::abs(lost) <= rounding, fmt::format("element {}: {} lost of {} (old residual {}, new {}, delivered {})", i, lost,
                                                   before.total[i], old_.empty() ? 0.0 : old_[i], after.total[i], update[i]));
    }
    old_ = std::move(after.total);
    old_magnitude_ = std::move(after.magnitude);
  }

  /// Checks, without error feedback, that no delivered value exceeds the sum of all magnitudes.
  void check_size() {
    std::vector<double> largest(n_);
    for (int rank = 0; rank < ranks(); ++rank) {
      for (std::size_t i = 0; i < n_; ++i) largest[i] += std::abs(static_cast<double>(at(rank).given[i]));
    }
    const std::vector<double> update = delivered();
    const double least =
        config_.wire_values == WireValues::float16 ? 0x1p-24 : static_cast<double>(std::numeric_limits<T>::denorm_min());
    const bool wild = std::any_of(largest.begin(), largest.end(), [](double x) { return !std::isfinite(x); });
    if (is_packed() && wild) return;  // a bucket is wild as a whole
    // In packed algorithms, each rank's integers, and those of sums, are off by half a step of their block.
    double step = 0;
    for (const double x : largest) step = std::max(step, is_packed() ? x / 127 : 0);
    for (std::size_t i = 0; i < n_; ++i) {
      if (!std::isfinite(largest[i])) continue;
      that(std::abs(update[i]) <= 1.05 * largest[i] + ranks() * least + (ranks() + 1) * step,
           fmt::format("element {}: {} delivered of {}", i, update[i], largest[i]));
    }
  }

  [[nodiscard]] bool has_oracle() const {
    const bool sharded = row_->sharded && nested_;
    return row_->sparse() && row_->threshold.empty() && (config_.compressor.empty() || is_of("top_k")) &&
           config_.threshold == "exact" && config_.wire_values == WireValues::native && config_.trial_iterations == 0 &&
           (!sharded || (keeps_residual() && config_.dense_iterations == 0));
  }

  void check_oracle() {
    if (is_dense()) return;
    if (!oracle_) oracle_.emplace(*row_, record_.locations, config_.count);
    if (!keeps_residual()) oracle_->forget_residuals();
    std::vector<std::vector<T>> gradients;
    for (int rank = 0; rank < ranks(); ++rank) gradients.push_back(at(rank).given);
    oracle_->step(gradients, at(0).statistics.k);
    std::vector<T> values = oracle_->sums;
    if (config_.average) {
      for (T& value : values) value /= static_cast<T>(ranks());
    }
    that(at(0).indices == oracle_->indices, "other indices than the oracle");
    that(same_bits<T>(at(0).values, values), at(0).algorithm + ": other values than the oracle");
    for (int rank = 0; rank < ranks() && keeps_residual(); ++rank)
      that(same_bits<T>(at(rank).residual, oracle_->residual(rank)),
           fmt::format("rank {}: another residual than the oracle", rank));
  }

  template <class U>
  static bool same_bits(const std::vector<U>& a, const std::vector<U>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](U x, U y) { return std::bit_cast<Key<U>>(x) == std::bit_cast<Key<U>>(y); });
  }

  const Record<T>& record_;
  const AllreduceConfig& config_;
  const std::size_t n_;
  const bool nested_;
  const compress::Compressor compressor_;  // empty if the plan chooses the algorithm
  RankCheck check_;
  std::size_t t_ = 0;
  const RunCase* run_ = nullptr;
  const AllreduceRow* row_ = nullptr;  // the algorithm of this run
  std::int64_t age_ = 0;               // runs since the plan was made or reset
  std::int64_t last_k_ = std::numeric_limits<std::int64_t>::max();
  bool untroubled_ = true;
  std::optional<Oracle<T>> oracle_;
  std::vector<double> old_, old_magnitude_;  // the sum of the ranks' residuals after the last run
};

}  // namespace

template <class T>
std::string fault_of(const Record<T>& record) {
  return Checker<T>(record).fault();
}
template std::string fault_of(const Record<float>&);
template std::string fault_of(const Record<double>&);

}  // namespace weir::test
