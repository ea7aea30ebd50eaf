// exchange.hpp: one buffer: the entries of some units, and whole dense tensors, exchanged together.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/config_check.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/control.hpp"
#include "communicator/asynchronous_call.hpp"
#include "fusion/fusion_config.hpp"
#include "fusion/unit.hpp"

namespace weir::fusion {

enum class Arrival : std::uint8_t {
  awaited,
  left_out,    ///< skipped, or in error: it is not in the sum
  contributes  ///< its gradient is in the sum
};

/// A tensor on one rank in one iteration.
template <class T>
struct Slot {
  T* gradient = nullptr;  ///< null if left out
  Arrival arrival = Arrival::awaited;
  std::int64_t delivered = 0;  ///< entries of the update
};

/// Holds what all exchanges of an object share.
template <class T>
struct Shared {
  std::shared_ptr<detail::CommunicatorState> comm;
  FusionConfig config;  ///< in force
  const AllreduceRow* row = nullptr;
  std::span<const FusedTensor> tensors;
  Threads threads;
  HostArrays<T> memory;  ///< for passes over gradients
  std::vector<detail::Lease> leases{};
  std::vector<Slot<T>> slots;
  FusionStatistics statistics{};
  bool has_owner = true;
  int in_flight = 0;
  Clock::time_point busy_since{}, last_end{};

  [[nodiscard]] ThresholdMethod threshold() const { return threshold_of(config, row->threshold); }
  /// Returns a tag, the same on all ranks.
  [[nodiscard]] int tag(std::size_t number) const {
    return leases[number / detail::Lease::tags].tag(static_cast<int>(number % detail::Lease::tags));
  }
};

/// The offsets of what a buffer may hold.
template <class T>
struct Contents {
  struct Place {
    Unit<T>* unit = nullptr;
    std::int64_t begin = 0;  ///< of the unit's elements, in the buffer's index space
  };
  std::vector<Place> units;                 ///< in the order of tensors
  std::vector<Part> dense;                  ///< whole tensors
  std::int64_t count = 0, dense_count = 0;  ///< elements
  std::int64_t k = 0;                       ///< per iteration and rank
  bool delivers_late = false;               ///< the update is not written to gradients: the owner collects it

  void add(Unit<T>& unit) {
    units.push_back({&unit, count});
    count += unit.count;
    k += unit.k;
  }
  void add_dense(int tensor, std::int64_t elements) {
    dense.push_back({tensor, dense_count, elements});
    dense_count += elements;
  }
};

/// A call whose error can be asked for more than once.
class FusedCall : public detail::AsynchronousCall {
 public:
  using AsynchronousCall::AsynchronousCall;
  /// Returns the error with which its run ended, or null.
  [[nodiscard]] const std::exception_ptr& outcome() noexcept {
    try {
      finish();
    } catch (...) {
      error_ = std::current_exception();
    }
    return error_;
  }

 protected:
  void forget_outcome() { error_ = nullptr; }

 private:
  std::exception_ptr error_;
};

/// Agreement of ranks on the end of an iteration, or on the number of buffers of `ahead`: computes maxima over all ranks.
class Agreement final : public FusedCall {
 public:
  /// `fused`, the name of the fused tensors, and `what`, the subject, identify it in messages.
  Agreement(std::shared_ptr<detail::CommunicatorState> communicator, std::string_view fused, std::string_view what, int tag,
            std::size_t most_words, FusionStatistics& statistics)
      : FusedCall(std::move(communicator), fmt::format("{}: {}", fused, what), most_urgent, tag, fused),
        words(most_words),
        scratch_(most_words),
        statistics_(statistics) {
    run.algorithm = "agreement";
  }
  /// Starts the agreement on the first `count` words.
  void start(std::size_t count) {
    check_startable();
    forget_outcome();
    const auto most = static_cast<std::int64_t>(count);
    launch([&] { return allreduce_control(channel(), words.data(), most, most, scratch_.data()); });
  }

  std::vector<std::uint64_t> words;

 protected:
  void completed() override { count_traffic(statistics_); }

 private:
  static constexpr int most_urgent = 1 << 30;
  std::vector<std::uint64_t> scratch_;
  FusionStatistics& statistics_;
};

template <class T>
class Exchange final : public FusedCall {
 public:
  /// `shared` and the units of `contents` must outlive the object.
  Exchange(std::shared_ptr<detail::CommunicatorState> communicator, Shared<T>& shared, std::string name, int priority, int tag,
           std::shared_ptr<const Contents<T>> contents)
      : FusedCall(std::move(communicator), std::move(name), priority, tag, shared.config.name),
        shared_(shared),
        contents_(std::move(contents)) {
    const AllreduceRow& row = *shared.row;
    const FusionConfig& config = shared.config;
    ExchangeSpec spec;
    spec.count = contents_->count;
    spec.type = config.type;
    spec.final_k = spec.largest_k = contents_->k;
    spec.at_most_k = shared.threshold().at_most_k();
    // This is at least what the units may select together, since the guard of each unit rounds down.
    spec.largest_local = most_selected(spec.at_most_k, contents_->count, contents_->k);
    spec.reuse_period = shared.threshold().period();
    spec.wire_format = config.wire_format;
    spec.wire_values = config.wire_values;
    spec.parameters = parameters_of(row, config.algorithm_parameters);
    spec.ranks = comm->topology.size();
    spec.divisor = config.average ? spec.ranks : 1;
    spec.topology = &comm->topology;
    spec.threads = shared.threads;
    spec.scratch = comm->scratch;
    if (row.asks_costs_for(spec)) spec.machine = &comm->agreed_machine().machine;
    run.holds_at_once = false;
    run.algorithm = row.name;
    run.element_type = name_of(config.type);
    run.count = contents_->count + contents_->dense_count;
    if (contents_->count > 0 || contents_->dense_count == 0) {
      sparse_ = row.make_sparse<T>(spec);
      const std::string how = sparse_->explanation().how;
      if (!how.empty()) explanation_ = fmt::format("; {}\n", how);
      const std::int64_t most = spec.largest_local;
      if (contents_->units.size() > 1) {
        indices_ = Buffer<std::uint32_t>(most + select_padding);
        values_ = Buffer<T>(most + select_padding);
      }
      taken_ = Buffer<std::uint32_t>(row.largest_update(spec));
    }
    if (contents_->dense_count > 0) {
      ExchangeSpec whole = spec;
      whole.count = contents_->dense_count;
      whole.largest_k = whole.largest_local = 0;
      const bool few = contents_->dense_count * static_cast<std::int64_t>(sizeof(T)) <= most_latency_bound;
      dense_ = find_allreduce(few ? "dense_rabenseifner" : "dense_ring").make_dense<T>(whole);
      staging_ = Buffer<T>(contents_->dense_count);
    }
    pieces_.reserve(contents_->units.size());
  }

  /// Adds a unit that has selected, so that its entries travel in this exchange. `error`: the error in the unit, if any.
  void fill(Unit<T>& unit, ErrorReport error) {
    const auto tensor = [](const Unit<T>& u) { return u.parts.front().tensor; };
    const auto place = std::partition_point(contents_->units.begin(), contents_->units.end(),
                                            [&](const auto& p) { return tensor(*p.unit) < tensor(unit); });
    pieces_.push_back({&unit, place->begin});
    refuse(error);
  }
  /// Records an error: nothing of this buffer is delivered on any rank.
  void refuse(ErrorReport error) { input_error_ = std::max(input_error_, error); }
  [[nodiscard]] bool refused() const { return static_cast<bool>(input_error_); }
  /// Records that filling the buffer failed for lack of memory. The exchange breaks off as soon as it starts.
  void break_off(std::exception_ptr why) noexcept { broken_off_ = std::move(why); }
  /// Returns true if all ranks must learn of this buffer even without entries.
  [[nodiscard]] bool has_news() const { return refused() || broken_off_ != nullptr; }

  /// Starts the exchange with what has been added.
  void start() {
    state_ = State::travels;
    gather();
    if (shared_.in_flight++ == 0) shared_.busy_since = Clock::now();
    launch([&] {
      if (broken_off_) std::rethrow_exception(broken_off_);
      return exchange();
    });
  }
  /// Prepares for the next iteration.
  void rearm() {
    state_ = State::filling;
    forget_outcome();
    broken_off_ = nullptr;
    input_error_ = {};
    pieces_.clear();
    update_ = {};
    outcome_ = {};
    awaited = static_cast<int>(contents_->units.size() + contents_->dense.size());
  }

  // For buffers that deliver late, after the run. The others do this by themselves.

  /// Returns true if there was an error on some rank, so that nothing was delivered.
  [[nodiscard]] bool failed() const { return state_ == State::failed; }
  /// Removes what was delivered from the residuals of this rank's units.
  void settle() {
    for (const Place& piece : pieces_) {
      const SparseVector<T> taken = within(piece.begin, piece.unit->count);
      piece.unit->contribution.settle(taken);
    }
  }
  /// Adds back the undelivered entries, which may belong to units of other buffers. All of these must have settled. The entries
  /// come in ascending runs, so neighbours mostly belong to one unit.
  void give_back_undelivered() {
    const SparseVector<T> back = outcome_.undelivered;
    const auto& units = contents_->units;
    auto place = units.begin();
    for (std::int64_t i = 0; i < back.count; ++i) {
      const std::int64_t index = back.indices[i];
      if (index < place->begin || index >= place->begin + place->unit->count)
        place = std::prev(
            std::upper_bound(units.begin(), units.end(), index, [](std::int64_t at, const auto& p) { return at < p.begin; }));
      place->unit->contribution.give_back(index - place->begin, back.values[i]);
    }
    for (const Place& piece : pieces_) piece.unit->settled();
  }
  /// Restores the residuals of this rank's units.
  void roll_back() {
    for (const Place& piece : pieces_) {
      piece.unit->contribution.roll_back(shared_.has_owner);
      piece.unit->settled();
    }
  }

  void reset() {
    if (sparse_) sparse_->reset();
    rearm();
  }
  void scale(double factor) {
    if (sparse_) sparse_->scale(factor);
  }
  void visit_state(StateVisitor& visitor, const std::string& name) {
    const StateVisitor::Scope scope(visitor, name);
    const StateVisitor::Scope inner(visitor, "exchange");
    if (!sparse_) return;
    const StateVisitor::Placed placed(visitor, {Share::agreed, range_of(contents_->count, 0, contents_->count)});
    sparse_->visit_state(visitor);
  }
  [[nodiscard]] const Contents<T>& contents() const { return *contents_; }
  /// Returns the update of the last run: sorted, in the buffer's index space, and divided.
  [[nodiscard]] SparseVector<T> update() const { return update_; }
  [[nodiscard]] std::int64_t memory_bytes() const {
    return (sparse_ ? sparse_->memory_bytes() : 0) + (dense_ ? dense_->memory_bytes() : 0) + indices_.bytes() + values_.bytes() +
           taken_.bytes() + staging_.bytes() + static_cast<std::int64_t>(pieces_.capacity() * sizeof(Place));
  }
  /// Returns the seconds from when the exchange had begun and the network was free for it, until it ended.
  [[nodiscard]] double seconds() const { return seconds_; }
  /// Returns the end of a line about this exchange: how its algorithm runs.
  [[nodiscard]] const std::string& explanation() const { return explanation_; }

  /// Returns true if the exchange has started in this iteration.
  [[nodiscard]] bool started() const { return state_ != State::filling; }

  int awaited = 0;  ///< units and dense tensors still missing in this iteration

 protected:
  void completed() override { count_traffic(shared_.statistics); }

 private:
  static constexpr std::int64_t most_latency_bound = 256 << 10;  // bytes of dense values; larger sums go round a ring

  using Place = typename Contents<T>::Place;
  /// The buffer's position in an iteration. Its run says whether it has ended.
  enum class State : std::uint8_t { filling, travels, failed };

  /// Gathers the entries of all pieces, sorted by index, and the dense tensors one after the other.
  void gather() {
    local_ = {};
    if (input_error_) return;
    std::sort(pieces_.begin(), pieces_.end(), [](const Place& a, const Place& b) { return a.begin < b.begin; });
    local_ = {indices_.data(), values_.data(), 0};
    if (contents_->units.size() == 1 && !pieces_.empty()) {
      local_ = pieces_.front().unit->contribution.travelling();
    } else {
      for (const Place& piece : pieces_) {
        const SparseVector<T> selection = piece.unit->contribution.travelling();
        const auto begin = static_cast<std::uint32_t>(piece.begin);
        for (std::int64_t i = 0; i < selection.count; ++i) indices_[local_.count + i] = selection.indices[i] + begin;
        std::copy_n(selection.values, selection.count, values_.data() + local_.count);
        local_.count += selection.count;
      }
    }
    for (const Part& part : contents_->dense) {
      const Slot<T>& slot = slot_of(part);
      T* const staged = staging_.data() + part.begin;
      slot.arrival == Arrival::contributes ? shared_.memory.narrow(slot.gradient, staged, part.count)
                                           : shared_.memory.fill_zero(staged, part.count);
      if (shared_.config.non_finite == NonFinite::propagate) continue;
      shared_.memory.count_non_finite(staged, part.count);
      if (shared_.memory.results().exceedances.count > 0) refuse(report_of(Wrong::non_finite, comm->topology.rank(), part.tensor));
    }
    if (input_error_) local_.count = 0;
    shared_.statistics.selected_local += local_.count;
  }

  task<void> exchange() {
    ErrorReport error = input_error_;
    {
      const StageScope stage = channel().stage(Stage::communicate);
      SparseOutcome<T> outcome;
      if (sparse_) {
        const StageScope inner = channel().stage(Stage::exchange);
        outcome = co_await sparse_->run(channel(), local_, contents_->k, error);
        error = outcome.input_error;
      } else if (dense_) {
        error = co_await dense_->agree_and_run(channel(), staging_.data(), error);
      } else {
        error = co_await agreement_.run(channel(), error);
      }
      if (sparse_ && dense_ && !error) co_await dense_->run(channel(), staging_.data());
      outcome_ = outcome;
    }
    note_end();
    {
      const StageScope stage = channel().stage(Stage::wait_for_caller);
      co_await channel().caller();
    }
    const StageScope stage = channel().stage(Stage::apply);
    if (error) end_failed(error);
    update_ = error ? SparseVector<T>{} : outcome_.update;
    shared_.statistics.selected_global += update_.count;
    if (contents_->delivers_late) co_return;
    if (!error) {
      settle();
      give_back_undelivered();
    }
    deliver(!error);
  }

  void note_end() {
    const Clock::time_point now = Clock::now();
    seconds_ = std::chrono::duration<double>(now - std::max(run.begun, shared_.last_end)).count();
    shared_.last_end = now;
    if (--shared_.in_flight == 0)
      shared_.statistics.seconds_exchange += std::chrono::duration<double>(now - shared_.busy_since).count();
  }

  /// Throws the error, unless the run is to be skipped.
  void end_failed(ErrorReport error) {
    state_ = State::failed;
    update_ = {};
    if (!contents_->delivers_late) roll_back();
    const bool skips = error.kind<Wrong>() == Wrong::non_finite && shared_.config.non_finite == NonFinite::skip;
    if (!skips) throw AgreedError(error_of(error, shared_.config, shared_.tensors));
    ++shared_.statistics.buffers_skipped;
  }

  /// Writes the update to all gradients. `sums`: there are sums of dense tensors; without them the update is 0.
  void deliver(bool sums) {
    for (const Place& place : contents_->units) {
      for (const Part& part : place.unit->parts) {
        const SparseVector<T> mine = within(place.begin + part.begin, part.count);
        slot_of(part).delivered = mine.count;
        if (T* const gradient = gradient_of(part); gradient != nullptr) shared_.memory.densify(gradient, part.count, mine);
      }
    }
    for (const Part& part : contents_->dense) {
      T* const gradient = gradient_of(part);
      if (gradient == nullptr) continue;
      sums ? shared_.memory.narrow(staging_.data() + part.begin, gradient, part.count)
           : shared_.memory.fill_zero(gradient, part.count);
    }
  }

  [[nodiscard]] Slot<T>& slot_of(const Part& part) { return shared_.slots[static_cast<std::size_t>(part.tensor)]; }
  /// Returns the caller's gradient of a tensor, or nullptr if it must not be touched any more.
  [[nodiscard]] T* gradient_of(const Part& part) { return shared_.has_owner ? slot_of(part).gradient : nullptr; }

  /// Returns the entries of the update from element `begin` of the buffer on, with indices relative to it.
  SparseVector<T> within(std::int64_t begin, std::int64_t count) {
    const std::uint32_t* const end = update_.indices + update_.count;
    const std::uint32_t* const first = std::lower_bound(update_.indices, end, static_cast<std::uint64_t>(begin));
    const std::uint32_t* const last = std::lower_bound(first, end, static_cast<std::uint64_t>(begin + count));
    const SparseVector<T> found{first, update_.values + (first - update_.indices), last - first};
    if (begin == 0) return found;
    for (std::int64_t i = 0; i < found.count; ++i) taken_[i] = found.indices[i] - static_cast<std::uint32_t>(begin);
    return {taken_.data(), found.values, found.count};
  }

  Shared<T>& shared_;
  std::shared_ptr<const Contents<T>> contents_;
  std::unique_ptr<SparseAllreduce<T>> sparse_;
  std::string explanation_ = "\n";
  std::unique_ptr<DenseAllreduce<T>> dense_;
  Buffer<std::uint32_t> indices_, taken_;
  Buffer<T> values_, staging_;
  std::vector<Place> pieces_;  // units that have selected
  SparseVector<T> local_, update_;
  SparseOutcome<T> outcome_;
  ErrorAgreement agreement_;  // with neither
  ErrorReport input_error_;
  State state_ = State::filling;
  std::exception_ptr broken_off_;
  double seconds_ = 0;
};

}  // namespace weir::fusion
