// typed_fused.hpp: the gradients of one model, of one type: units that select, buffers that exchange, and whose turn it is.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "fusion/adaptation.hpp"
#include "fusion/agreement.hpp"
#include "fusion/exchange.hpp"
#include "fusion/fused.hpp"
#include "plan/plan_config.hpp"

namespace weir::fusion {

/// What an object is made with, agreed on by all ranks.
struct Plan {
  FusionConfig config;  ///< in force
  const AllreduceRow* row = nullptr;
  Line line;  ///< in the order in which gradients are expected
  LinearCost cost;
  std::string explanation;
};

template <class T>
class TypedFused final : public detail::FusedImpl {
 public:
  TypedFused(std::shared_ptr<detail::CommunicatorState> communicator, Plan plan, std::span<const FusedTensor> described)
      : FusedImpl(std::move(communicator), plan.config, described),
        row_(*plan.row),
        explanation_(std::move(plan.explanation)),
        naive_(config.scheme == FusionScheme::ahead),
        adaptation_(config.scheme, plan.line, plan.cost, fused_bytes()) {
    shared_.config = config;
    shared_.tensors = tensors;
    shared_.slots.resize(tensors.size());
    ready_times_.resize(tensors.size());
    unit_of_.resize(tensors.size());
    make_units(plan);
    selecting_.name = config.name;
    if (Tracer* const tracer = comm->engine.tracer()) selecting_.trace_row = tracer->add_row(config.name + ": select");
  }
  /// Tags that open() wants.
  [[nodiscard]] int tags() const {
    const std::size_t most = adaptation_.settled() ? division_.size() : std::max(tensors.size(), division_.size());
    return static_cast<int>(agreements + most + (naive_ ? most_phases_ : 0));
  }
  /// With the tags of these leases, which are the same on all ranks.
  void open(std::vector<detail::Lease> leases) {
    leases_ = std::move(leases);
    const std::size_t most_words = 1 + adaptation_.words(adaptation_.settled() ? 0 : std::max(tensors.size(), division_.size()));
    ending_.emplace(comm, config.name + ": end of an iteration", tag(0), most_words, shared_.statistics);
    if (naive_) counting_.emplace(comm, config.name + ": number of buffers", tag(1), 1, shared_.statistics);
    exchanges_ = make_exchanges(division_);
    for (std::size_t i = 0; i < (naive_ ? most_phases_ : 0); ++i) phases_.push_back(make_phase(i));
    place_tensors();
  }

  void ready(std::int64_t tensor, void* gradient, std::int64_t count, DataType type, bool contributes) override {
    require_usable();
    begin();
    if (tensor < 0 || tensor >= std::ssize(tensors)) return note(Wrong::unknown, tensor);
    Slot<T>& slot = shared_.slots[static_cast<std::size_t>(tensor)];
    if (closed_) return note(Wrong::late, tensor);
    if (slot.ready) return note(Wrong::twice, tensor);
    const FusedTensor& described = tensors[static_cast<std::size_t>(tensor)];
    const Wrong wrong = !contributes && !described.optional ? Wrong::not_optional : what_is_wrong(described, gradient, count, type);
    slot.ready = true;
    slot.contributes = contributes && wrong == Wrong::none;
    if (!contributes) ++shared_.statistics.tensors_skipped;
    slot.gradient = wrong == Wrong::none ? static_cast<T*>(gradient) : nullptr;
    hand_in(static_cast<int>(tensor), wrong == Wrong::none ? 0 : word(wrong, tensor, count));
    last_ready_ = Clock::now();
    ready_times_[static_cast<std::size_t>(tensor)] = since_begin(last_ready_);
    comm->engine.poll();
  }

  void progress() override {
    require_usable();
    comm->engine.poll();
  }

  bool test(std::int64_t tensor) override {
    if (!may_wait(tensor)) {
      end_iteration();
      return true;
    }
    const WaitClock clock(*this);
    comm->engine.poll();
    if (is_phased(tensor)) {
      if (!counting_->run.finished) return false;
      start_last_phases();
      const bool finished = std::all_of(phases_.begin(), phases_.end(), [](const auto& phase) { return phase->run.finished; });
      if (finished) wait_for_phases();
      return finished;
    }
    Exchange<T>& exchange = *exchange_of(tensor);
    if (!exchange.run.finished) return false;
    if (exchange.outcome()) end_iteration();
    return true;
  }

  void wait(std::int64_t tensor) override {
    if (!may_wait(tensor)) return end_iteration();
    {
      const WaitClock clock(*this);
      if (is_phased(tensor)) return wait_for_phases();
      Exchange<T>& exchange = *exchange_of(tensor);
      finish(exchange);
      if (!exchange.outcome()) return;
    }
    end_iteration();
  }

  void wait_all() override {
    require_usable();
    begin();
    close();
    end_iteration();
  }

  void reset() override {
    require_idle("resetting it");
    for (auto& unit : units_) unit->reset();
    for (auto& exchange : exchanges_) exchange->reset();
    for (auto& phase : phases_) phase->reset();
    state_ = {};
    statistics = {};
  }

  void visit_state(StateVisitor& visitor) override {
    require_idle("asking for its state");
    visitor.fixed("rank", comm->topology.rank(), Share::layout);
    visitor.fixed("ranks", comm->topology.size(), Share::layout);
    visitor.fixed("element_bytes", sizeof(T));
    visitor.text("tensors", text_of(tensors));
    visitor.text("scheme", name_of(config.scheme));
    visitor.text("algorithm", config.algorithm, Share::layout);
    if (adaptation_fixed()) visitor.text("buffers", text_of_division(), Share::layout);
    visitor.state(state_);
    const StateVisitor::Copy copy = [](void* to, const void* from, std::int64_t bytes) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    };
    for (std::size_t i = 0; i < units_.size(); ++i) visit_unit(visitor, *units_[i], i, copy);
    if (visitor.restores()) statistics = {};
    if (!adaptation_fixed()) return;  // buffers that follow measured times are found anew
    for (std::size_t i = 0; i < exchanges_.size(); ++i) visit_exchange(visitor, *exchanges_[i], fmt::format("buffer{}", i));
    for (std::size_t i = 0; i < phases_.size(); ++i) visit_exchange(visitor, *phases_[i], fmt::format("phase{}", i));
  }

  [[nodiscard]] const void* residual(int tensor) const override {
    const auto& [unit, part] = unit_of_[static_cast<std::size_t>(tensor)];
    if (unit == nullptr || unit->residual() == nullptr) return nullptr;
    return unit->residual() + unit->parts[part].begin;
  }
  [[nodiscard]] std::int64_t memory_bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& unit : units_) bytes += unit->memory_bytes();
    for (const auto& exchange : exchanges_) bytes += exchange->memory_bytes();
    for (const auto& phase : phases_) bytes += phase->memory_bytes();
    return bytes;
  }
  [[nodiscard]] std::string explanation() const override {
    std::string text = explanation_;
    if (!adaptation_fixed()) text += adaptation_.text();
    if (naive_) text += fmt::format("up to {} buffers of {} entries, filled as gradients come\n", most_phases_, capacity_);
    for (std::size_t i = 0; i < division_.size(); ++i) text += fmt::format("buffer {}: {}\n", i, words_of(division_[i]));
    return text;
  }
  [[nodiscard]] int buffer_of(int tensor) const override { return buffer_of_[static_cast<std::size_t>(tensor)]; }

  void require_idle(std::string_view what) const override {
    require_usable();
    if (begun_) fail(WEIR_ERR_BUSY, "fused '{}' is within an iteration: call wait_all() before {}", config.name, what);
  }

  bool retire() noexcept override {
    shared_.has_owner = false;
    if (broken_ || !comm->transport->is_running()) return false;
    if (!begun_) return true;
    // The other ranks wait for the rest of the iteration.
    try {
      abandon();
      start_naive_end();
      if (naive_) {
        drive_to_end(*counting_);
        start_last_phases();
      }
      for (auto& exchange : exchanges_) drive_to_end(*exchange);
      for (auto& phase : phases_) drive_to_end(*phase);
      ending_->words[0] = word_;
      if (ending_->run.finished) ending_->start(end_words());
      drive_to_end(*ending_);
    } catch (...) {
      return false;
    }
    return !any_broken();
  }

 private:
  static constexpr std::size_t agreements = 2;  // tags of their own

  /// What lives on, besides units and buffers.
  struct State {
    std::int64_t iterations = 0;

    void visit(StateVisitor& visitor) {
      visitor.value("iterations", iterations);
      visitor.check(iterations >= 0, "iterations", "at least 0");
    }
  };

  /// The caller waits as long as it lives.
  class WaitClock {
   public:
    explicit WaitClock(TypedFused& fused) : fused_(fused) {}
    WaitClock(const WaitClock&) = delete;
    WaitClock& operator=(const WaitClock&) = delete;
    ~WaitClock() { fused_.shared_.statistics.seconds_waited += std::chrono::duration<double>(Clock::now() - begin_).count(); }

   private:
    TypedFused& fused_;
    Clock::time_point begin_ = Clock::now();
  };

  [[nodiscard]] bool adaptation_fixed() const {
    return config.scheme != FusionScheme::ahead_inter_intra && config.scheme != FusionScheme::ahead_fitted;
  }
  /// Bytes of entries that fill a buffer.
  [[nodiscard]] std::int64_t fused_bytes() const {
    return std::max<std::int64_t>(1, std::llround(config.density * static_cast<double>(config.buffer_bytes / sizeof(T)))) *
           static_cast<std::int64_t>(sizeof(T) + 4);
  }
  [[nodiscard]] Threshold threshold() const { return row_.threshold.value_or(config.threshold); }
  [[nodiscard]] int tag(std::size_t number) const {
    return leases_[number / detail::Lease::tags].tag(static_cast<int>(number % detail::Lease::tags));
  }
  [[nodiscard]] double since_begin(Clock::time_point at) const { return std::chrono::duration<double>(at - begun_at_).count(); }
  [[nodiscard]] std::uint64_t word(Wrong wrong, std::int64_t tensor, std::int64_t count = 0) const {
    return word_of(wrong, comm->topology.rank(), tensor, count);
  }
  /// All ranks hear it at the end of the iteration.
  void note(Wrong wrong, std::int64_t tensor) { word_ = std::max(word_, word(wrong, tensor)); }
  [[nodiscard]] bool is_phased(std::int64_t tensor) const { return naive_ && !tensors[static_cast<std::size_t>(tensor)].dense; }
  [[nodiscard]] Exchange<T>* exchange_of(std::int64_t tensor) const {
    return exchanges_[static_cast<std::size_t>(buffer_of_[static_cast<std::size_t>(tensor)])].get();
  }

  // Making

  void make_units(const Plan& plan) {
    const Line dense_only = only_dense(plan.line);
    switch (config.scheme) {
      case FusionScheme::none:
        division_ = divide(plan.line, one_each(plan.line));
        break;
      case FusionScheme::behind:
        division_ = divide(by_gradient_bytes(plan.line), by_bytes(by_gradient_bytes(plan.line), config.buffer_bytes));
        break;
      case FusionScheme::ahead:
        division_ = divide(by_gradient_bytes(dense_only), by_bytes(by_gradient_bytes(dense_only), config.buffer_bytes));
        break;
      case FusionScheme::omgs:
        division_ = divide(plan.line, merged(plan.line, plan.cost));
        break;
      case FusionScheme::cupcake:
        division_ = divide(plan.line, earliest(plan.line, plan.cost, plan.line.size()));
        break;
      default:
        division_ = divide(plan.line, by_bytes(plan.line, fused_bytes()));
    }
    if (config.scheme == FusionScheme::behind) {
      for (const std::vector<int>& buffer : division_) make_unit(buffer);
    } else {
      for (int tensor = 0; tensor < static_cast<int>(tensors.size()); ++tensor) make_unit({tensor});
    }
    if (!naive_) return;
    capacity_ = fused_bytes() / static_cast<std::int64_t>(sizeof(T) + 4);
    std::int64_t small = 0, large = 0;
    for (const auto& unit : units_) {
      (unit->most_selected > capacity_ ? large : small) += unit->most_selected > capacity_ ? 1 : unit->most_selected;
    }
    // Two neighbours are more than full together, unless a large one comes between.
    most_phases_ = static_cast<std::size_t>(2 * large + 2 * ((small + capacity_ - 1) / capacity_) + 1);
  }

  [[nodiscard]] Line only_dense(const Line& line) const {
    Line dense;
    for (const Load& load : line)
      if (tensors[static_cast<std::size_t>(load.tensor)].dense) dense.push_back(load);
    return dense;
  }
  [[nodiscard]] Line by_gradient_bytes(Line line) const {
    for (Load& load : line)
      load.bytes = tensors[static_cast<std::size_t>(load.tensor)].count * static_cast<std::int64_t>(sizeof(T));
    return line;
  }

  /// Of the sparse ones among these.
  void make_unit(const std::vector<int>& buffer) {
    std::vector<Part> parts;
    SelectionSetup setup{0, 0, threshold(), config.threshold_period, config.samplings};
    bool any_optional = false;
    for (const int tensor : buffer) {
      const FusedTensor& described = tensors[static_cast<std::size_t>(tensor)];
      if (described.dense) continue;
      parts.push_back({tensor, setup.count, described.count});
      setup.count += described.count;
      setup.largest_k += k_of(config, described);
      any_optional = any_optional || described.optional;
    }
    if (parts.empty()) return;
    units_.push_back(std::make_unique<Unit<T>>(std::move(parts), setup, config.error_feedback == Feedback::residual,
                                               config.non_finite != NonFinite::propagate, any_optional));
    Unit<T>* const unit = units_.back().get();
    for (std::size_t part = 0; part < unit->parts.size(); ++part)
      unit_of_[static_cast<std::size_t>(unit->parts[part].tensor)] = {unit, part};
  }

  [[nodiscard]] AllreduceProblem problem_of(const Contents<T>& contents) const {
    AllreduceProblem problem;
    problem.count = contents.count;
    problem.largest_k = contents.k;
    // At least what the units may select together: guards round down, for each.
    problem.largest_local = weir::most_selected(threshold(), contents.count, contents.k);
    problem.ranks = comm->topology.size();
    problem.divisor = config.average ? problem.ranks : 1;
    problem.topology = &comm->topology;
    AllreduceConfig& c = problem.config;
    c.count = contents.count;
    c.type = config.type;
    c.k = contents.k;
    c.algorithm = config.algorithm;
    c.threshold = threshold();
    c.threshold_period = config.threshold_period;
    c.boundary_period = config.boundary_period;
    c.balance_trigger = config.balance_trigger;
    c.window = config.window;
    c.wire_format = config.wire_format;
    c.wire_values = config.wire_values;
    c.average = config.average;
    c.non_finite = config.non_finite;
    return problem;
  }

  void add_unit(Contents<T>& contents, Unit<T>& unit) const {
    contents.units.push_back({&unit, contents.count});
    contents.count += unit.count;
    contents.k += unit.k;
    contents.most_selected += unit.most_selected;
  }

  /// Of the forward pass: buffers that it needs first come first.
  [[nodiscard]] int priority_of(const std::vector<int>& buffer) const {
    const std::int64_t above = std::ssize(tensors) - 1 - (buffer.empty() ? 0 : buffer.front());
    return static_cast<int>(std::min<std::int64_t>(config.priority + above, std::numeric_limits<int>::max()));
  }

  [[nodiscard]] std::vector<std::unique_ptr<Exchange<T>>> make_exchanges(const Division& division) const {
    std::vector<std::unique_ptr<Exchange<T>>> exchanges;
    for (std::size_t i = 0; i < division.size(); ++i) {
      Contents<T> contents;
      const Unit<T>* last = nullptr;
      for (const int tensor : division[i]) {
        Unit<T>* const unit = unit_of_[static_cast<std::size_t>(tensor)].first;
        if (unit == nullptr) {
          contents.dense.push_back({tensor, contents.dense_count});
          contents.dense_count += tensors[static_cast<std::size_t>(tensor)].count;
        } else if (unit != last) {
          add_unit(contents, *unit);
          last = unit;
        }
      }
      const AllreduceProblem problem = problem_of(contents);
      exchanges.push_back(
          std::make_unique<Exchange<T>>(comm, shared_, fmt::format("{} {}: {}", config.name, i, words_of(division[i])),
                                        priority_of(division[i]), tag(agreements + i), row_, problem, std::move(contents)));
    }
    return exchanges;
  }

  [[nodiscard]] std::unique_ptr<Exchange<T>> make_phase(std::size_t number) const {
    Contents<T> contents;
    for (const auto& unit : units_) add_unit(contents, *unit);
    std::int64_t largest = capacity_;
    for (const auto& unit : units_) largest = std::max(largest, unit->most_selected);
    contents.k = std::min(contents.most_selected, largest);
    contents.most_selected = weir::most_selected(threshold(), contents.count, contents.k);
    contents.delivers_late = true;
    const AllreduceProblem problem = problem_of(contents);
    return std::make_unique<Exchange<T>>(comm, shared_, fmt::format("{} {}: as gradients come", config.name, number),
                                         config.priority, tag(agreements + division_.size() + number), row_, problem,
                                         std::move(contents));
  }

  void place_tensors() {
    buffer_of_.assign(tensors.size(), -1);
    for (std::size_t i = 0; i < division_.size(); ++i)
      for (const int tensor : division_[i]) buffer_of_[static_cast<std::size_t>(tensor)] = static_cast<int>(i);
    exchange_times_.resize(division_.size());
  }

  /// "'layer1.weight'", "'layer1.weight' to 'layer3.bias' (6 tensors)"
  [[nodiscard]] std::string words_of(const std::vector<int>& buffer) const {
    if (buffer.empty()) return "nothing";
    const std::string& first = tensors[static_cast<std::size_t>(buffer.front())].name;
    if (buffer.size() == 1) return fmt::format("'{}'", first);
    if (buffer.size() > 4)
      return fmt::format("'{}' to '{}' ({} tensors)", first, tensors[static_cast<std::size_t>(buffer.back())].name, buffer.size());
    std::string text;
    for (const int tensor : buffer)
      text += fmt::format("{}'{}'", text.empty() ? "" : ", ", tensors[static_cast<std::size_t>(tensor)].name);
    return text;
  }

  /// "4 2,3 0,1", and how many entries fill a buffer.
  [[nodiscard]] std::string text_of_division() const {
    std::string text = naive_ ? fmt::format("of {}", capacity_) : "";
    for (const std::vector<int>& buffer : division_) {
      for (const int tensor : buffer) text += fmt::format("{}{}", tensor == buffer.front() ? " " : ",", tensor);
    }
    return text;
  }

  // An iteration

  [[nodiscard]] bool any_broken() const {
    const auto broken = [](const auto& call) { return call->run.broken; };
    return std::any_of(exchanges_.begin(), exchanges_.end(), broken) || std::any_of(phases_.begin(), phases_.end(), broken) ||
           ending_->run.broken || (counting_ && counting_->run.broken);
  }
  void require_usable() const {
    comm->require_running();
    if (broken_)
      fail(WEIR_ERR_STATE, "fused '{}' cannot go on: an exchange broke off. Make a new communicator and start over", config.name);
  }

  void begin() {
    if (begun_) return;
    begun_ = true;
    closed_ = false;
    word_ = 0;
    phase_ = filled_ = 0;
    shared_.statistics = {};
    shared_.in_flight = 0;
    begun_at_ = last_ready_ = Clock::now();
    shared_.last_end = {};
    selecting_.seconds = {};
    for (Slot<T>& slot : shared_.slots) slot = {};
    std::fill(ready_times_.begin(), ready_times_.end(), 0.0);
    for (auto& unit : units_) unit->awaited = static_cast<int>(unit->parts.size());
    for (auto& exchange : exchanges_) {
      exchange->rearm();
      exchange->awaited = static_cast<int>(exchange->contents().units.size() + exchange->contents().dense.size());
    }
    for (auto& phase : phases_) phase->rearm();
  }

  [[nodiscard]] Wrong what_is_wrong(const FusedTensor& described, void* gradient, std::int64_t count, DataType type) {
    if (type != config.type) return Wrong::wrong_type;
    if (count != described.count) return Wrong::wrong_count;
    if (count == 0) return Wrong::none;
    if (gradient == nullptr) return Wrong::null_pointer;
    if (reinterpret_cast<std::uintptr_t>(gradient) % sizeof(T) != 0) return Wrong::misaligned;
    if (pointers_.error_of(gradient, nullptr) != InputError::none) return Wrong::device_memory;
    const std::span array(static_cast<const std::byte*>(gradient), static_cast<std::size_t>(count) * sizeof(T));
    return comm->engine.will_write(array) ? Wrong::in_use : Wrong::none;
  }

  /// The tensor has come, or never will in this iteration; `error` is what is wrong with it.
  void hand_in(int tensor, std::uint64_t error) {
    const auto [unit, part] = unit_of_[static_cast<std::size_t>(tensor)];
    Exchange<T>* const exchange = naive_ && unit != nullptr ? phases_[phase_].get() : exchange_of(tensor);
    if (error != 0) exchange->refuse(error);
    const Slot<T>& slot = shared_.slots[static_cast<std::size_t>(tensor)];
    if (unit != nullptr) {
      const bool alone = unit->parts.size() == 1;
      if (!alone && slot.contributes) unit->copy_in(unit->parts[part], slot.gradient);
      if (!alone && !slot.contributes) unit->leave_out(unit->parts[part]);
      if (--unit->awaited > 0) return;
      if (!exchange->refused() && (!alone || slot.contributes)) {
        if (naive_)
          fill_phase(*unit, select(*unit, slot.gradient));
        else
          select_for(*exchange, *unit, alone ? slot.gradient : nullptr);
      } else if (!alone) {
        unit->settled();  // what was set aside is back
      }
    }
    if (naive_ && unit != nullptr) return;
    if (--exchange->awaited == 0) exchange->start();
  }

  /// False: it holds NaN or infinity.
  bool select(Unit<T>& unit, const T* gradient) {
    const StageScope stage(comm->engine, selecting_, Stage::select);
    const FramePool::Scope scope(comm->engine.frames());
    return run_here(unit.select(gradient));
  }
  void select_for(Exchange<T>& exchange, Unit<T>& unit, const T* gradient) {
    const bool finite = select(unit, gradient);
    exchange.add(unit);
    if (!finite) exchange.refuse(word(Wrong::non_finite, unit.non_finite_tensor()));
  }
  void fill_phase(Unit<T>& unit, bool finite) {
    const std::int64_t count = unit.selection().count;
    if (filled_ > 0 && filled_ + count > capacity_) {
      phases_[phase_++]->start();
      filled_ = 0;
    }
    phases_[phase_]->add(unit);
    filled_ += count;
    if (!finite) phases_[phase_]->refuse(word(Wrong::non_finite, unit.parts.front().tensor));
  }

  /// No more gradients in this iteration.
  void close() {
    if (closed_) return;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      if (shared_.slots[tensor].ready) continue;
      const bool may = tensors[tensor].optional;
      if (may) ++shared_.statistics.tensors_skipped;
      if (!may) note(Wrong::missing, static_cast<std::int64_t>(tensor));
      hand_in(static_cast<int>(tensor), may ? 0 : word(Wrong::missing, static_cast<std::int64_t>(tensor)));
    }
    closed_ = true;
    start_naive_end();
  }
  /// The owner goes: all that has not been started is refused.
  void abandon() {
    const std::uint64_t gone = word(Wrong::destroyed, 0);
    word_ = std::max(word_, gone);
    if (closed_) return;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
      if (!shared_.slots[tensor].ready) hand_in(static_cast<int>(tensor), gone);
    closed_ = true;
  }
  void start_naive_end() {
    if (!naive_ || counted_) return;
    counted_ = true;
    if (filled_ > 0 || phases_[phase_]->refused()) phases_[phase_++]->start();
    counting_->words[0] = phase_;
    counting_->start(1);
  }

  /// For wait() and test(): closes the iteration. False where this rank has done something wrong in it, which ends it.
  [[nodiscard]] bool may_wait(std::int64_t tensor) {
    require_usable();
    begin();
    if (tensor < 0 || tensor >= std::ssize(tensors)) note(Wrong::unknown, tensor);
    close();
    return word_ == 0;
  }

  /// Drives a call until it has finished. Throws where it broke off.
  void finish(detail::AsynchronousCall& call) {
    if (!call.run.finished) comm->engine.drive(call.run);
    if (!call.run.broken) return;
    broken_ = true;
    call.finish();
    require_usable();
  }
  void finish(Exchange<T>& exchange) {
    if (!exchange.run.finished) comm->engine.drive(exchange.run);
    if (!exchange.run.broken) return;
    broken_ = true;
    if (const std::exception_ptr& error = exchange.outcome()) std::rethrow_exception(error);
    require_usable();
  }
  void drive_to_end(detail::AsynchronousCall& call) noexcept {
    if (!call.run.finished) comm->engine.drive_to_end(call.run);
  }

  /// Once their number is known: every rank takes part in as many.
  void start_last_phases() {
    for (const std::size_t most = counting_->words[0]; phase_ < most; ++phase_) phases_[phase_]->start();
  }
  /// Of `ahead`: until all have finished, and their sum is in the gradients.
  void wait_for_phases() {
    if (delivered_) return;
    finish(*counting_);
    counting_->finish();
    start_last_phases();
    for (auto& phase : phases_) {
      if (phase->started) finish(*phase);
    }
    deliver_phases();
  }
  void deliver_phases() {
    delivered_ = true;
    // Ranks have other tensors in a buffer: if one fails, tensors would get a part of their sum. So none is delivered.
    bool failed = false, skipped = true;
    for (const auto& phase : phases_) {
      failed = failed || phase->failed();
      skipped = skipped && !phase->outcome();
    }
    for (const auto& phase : phases_) failed ? phase->roll_back() : phase->settle();
    if (!failed)
      for (const auto& phase : phases_) phase->give_back_undelivered();
    if (!skipped) return;
    const auto& places = phases_.front()->contents().units;
    for (const auto& place : places) {
      const Slot<T>& slot = shared_.slots[static_cast<std::size_t>(place.unit->parts.front().tensor)];
      if (slot.gradient != nullptr) kernels::host::fill_zero(slot.gradient, place.unit->count);
    }
    for (const auto& phase : phases_) {
      const SparseVector<T> update = failed || !phase->started ? SparseVector<T>{} : phase->update();
      auto place = places.begin();
      for (std::int64_t i = 0; i < update.count; ++i) {
        const std::int64_t index = update.indices[i];
        while (index >= place->begin + place->unit->count) ++place;
        Slot<T>& slot = shared_.slots[static_cast<std::size_t>(place->unit->parts.front().tensor)];
        ++slot.delivered;
        if (slot.gradient != nullptr) slot.gradient[index - place->begin] += update.values[i];
      }
    }
  }

  [[nodiscard]] std::size_t end_words() const { return 1 + adaptation_.words(division_.size()); }

  /// All exchanges, then the agreement on the iteration. Throws the first error of either.
  void end_iteration() {
    std::exception_ptr error;
    {
      const WaitClock clock(*this);
      if (naive_) wait_for_phases();
      for (auto& exchange : exchanges_) finish(*exchange);
      ending_->words[0] = word_;
      if (!adaptation_.settled()) measure();
      ending_->start(end_words());
      finish(*ending_);
      ending_->finish();
      for (auto& exchange : exchanges_)
        if (const std::exception_ptr& outcome = exchange->outcome(); outcome && !error) error = outcome;
      for (auto& phase : phases_) {
        if (!phase->started) continue;
        if (const std::exception_ptr& outcome = phase->outcome(); outcome && !error) error = outcome;
      }
    }
    if (!error && ending_->words[0] != 0)
      error = std::make_exception_ptr(AgreedError(error_of(ending_->words[0], config, tensors)));
    begun_ = closed_ = counted_ = delivered_ = false;
    count_statistics();
    if (!adaptation_.settled() && !error) adapt();
    if (error) std::rethrow_exception(error);
  }

  void measure() {
    for (std::size_t i = 0; i < exchanges_.size(); ++i) exchange_times_[i] = exchanges_[i]->seconds();
    adaptation_.write(since_begin(std::max(shared_.last_end, last_ready_)), ready_times_, exchange_times_,
                      ending_->words.data() + 1);
  }

  /// Collective, while buffers follow measured times.
  void adapt() {
    std::optional<Division> next;
    std::vector<std::unique_ptr<Exchange<T>>> exchanges;
    try {
      comm->agree("dividing tensors anew", "fused", config.name, [&] {
        next = adaptation_.learn(ending_->words.data() + 1, division_);
        if (next) exchanges = make_exchanges(*next);
      });
    } catch (const AgreedError& error) {  // too little memory on some rank
      adaptation_.give_up();
      log(comm->settings.log, LogLevel::warn, "fused '{}' keeps its buffers: {}", config.name, error.what());
      return;
    }
    if (!next) return;
    division_ = std::move(*next);
    exchanges_ = std::move(exchanges);
    place_tensors();
    log(comm->settings.log, LogLevel::info, "rank {}: fused '{}' has {} buffers now; {}", comm->topology.rank(), config.name,
        division_.size(), adaptation_.text());
  }

  void count_statistics() {
    FusionStatistics& s = shared_.statistics;
    s.iteration = ++state_.iterations;
    for (const auto& exchange : exchanges_) s.exchanges += exchange->started ? 1 : 0;
    for (const auto& phase : phases_) s.exchanges += phase->started ? 1 : 0;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor)
      s.tensors_missing += k_of(config, tensors[tensor]) > 0 && shared_.slots[tensor].delivered == 0 ? 1 : 0;
    s.seconds_select = selecting_.seconds[static_cast<std::size_t>(Stage::select)];
    s.seconds_backward = since_begin(last_ready_);
    s.seconds_total = since_begin(std::max(shared_.last_end, last_ready_));
    s.regroupings = adaptation_.regroupings();
    s.settled = adaptation_.settled();
    statistics = s;
  }

  // State

  void visit_unit(StateVisitor& visitor, Unit<T>& unit, std::size_t number, const StateVisitor::Copy& copy) {
    for (const Part& part : unit.parts) {
      const StateVisitor::Scope scope(visitor, "tensor");
      const StateVisitor::Scope name(visitor, tensors[static_cast<std::size_t>(part.tensor)].name);
      const std::int64_t count = unit.residual() != nullptr ? part.count : 0;
      const StateVisitor::Placed placed(visitor, {Share::summed, range_of(part.count, 0, count)});
      visitor.array("residual", unit.residual() != nullptr ? unit.residual() + part.begin : nullptr, count, copy);
      if (unit.parts.size() == 1) {
        const StateVisitor::Scope selector(visitor, "selector");
        const StateVisitor::Placed each(visitor, {});
        unit.visit_selector(visitor);
      }
    }
    if (unit.parts.size() == 1) return;
    const StateVisitor::Scope scope(visitor, fmt::format("unit{}", number));
    const StateVisitor::Scope selector(visitor, "selector");
    unit.visit_selector(visitor);
  }
  void visit_exchange(StateVisitor& visitor, Exchange<T>& exchange, const std::string& name) {
    const StateVisitor::Scope scope(visitor, name);
    const StateVisitor::Scope inner(visitor, "exchange");
    exchange.visit_state(visitor);
  }

  const AllreduceRow& row_;
  std::string explanation_;
  bool naive_;
  Adaptation adaptation_;
  std::vector<detail::Lease> leases_;
  mutable Shared<T> shared_;
  std::vector<std::unique_ptr<Unit<T>>> units_;
  std::vector<std::pair<Unit<T>*, std::size_t>> unit_of_;  // by tensor, and which part; null: dense
  Division division_;
  std::vector<int> buffer_of_;
  std::vector<std::unique_ptr<Exchange<T>>> exchanges_;  // by buffer
  std::optional<Agreement> ending_, counting_;
  HostPointers pointers_;
  State state_;
  Run selecting_;  // for its stages alone
  // Of `ahead`:
  std::vector<std::unique_ptr<Exchange<T>>> phases_;
  std::size_t most_phases_ = 0;
  std::int64_t capacity_ = 0;  // entries of a buffer
  // Of an iteration:
  bool begun_ = false, closed_ = false, counted_ = false, delivered_ = false, broken_ = false;
  std::uint64_t word_ = 0;
  std::size_t phase_ = 0;    // that is being filled
  std::int64_t filled_ = 0;  // entries in it
  Clock::time_point begun_at_{}, last_ready_{};
  std::vector<double> ready_times_, exchange_times_;
};

}  // namespace weir::fusion
