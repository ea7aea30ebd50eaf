// buffers.hpp: the tensors of a model as units, each sparsified as a whole, and as buffers, each exchanged as a whole.
//
// With the scheme `ahead` (SAFusion's naive one), sparse tensors have no buffer of their own: every buffer of a second list, called
// phases, spans the whole model. Each rank fills one after the other with whatever tensors come, and as many as it needs. Ranks
// agree on the largest number, and all take part in that many exchanges. The update is the sum of all phases. It is in the
// gradients once all of them have ended.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusion/division.hpp"
#include "fusion/exchange.hpp"
#include "fusion/fused.hpp"
#include "fusion/scheme.hpp"

namespace weir::fusion {

template <class T>
using Exchanges = std::vector<std::unique_ptr<Exchange<T>>>;

template <class T>
class Buffers {
 public:
  /// Makes the units. `shared` must outlive the object.
  Buffers(Shared<T>& shared, const FusionSetup& setup)
      : shared_(shared),
        capacity_(std::max<std::int64_t>(
            1, std::llround(config().density * static_cast<double>(static_cast<std::size_t>(config().buffer_bytes) / sizeof(T))))),
        division_(setup.scheme->divide({setup.line, setup.cost, config().buffer_bytes, full_bytes()})),
        places_(tensors().size()) {
    if (setup.scheme->selects_in_buffers) {
      for (const std::vector<int>& buffer : division_) make_unit(buffer);
    } else {
      for (int tensor = 0; tensor < static_cast<int>(tensors().size()); ++tensor) make_unit({tensor});
    }
    if (!setup.scheme->fills_as_they_come) return;
    std::int64_t small = 0, large = 0;
    for (const auto& unit : units_) {
      const bool is_large = unit->most_selected > capacity_;
      (is_large ? large : small) += is_large ? 1 : unit->most_selected;
    }
    // Two neighbouring buffers are more than full together, unless a large tensor comes between.
    most_phases_ = static_cast<std::size_t>(2 * large + 2 * ((small + capacity_ - 1) / capacity_) + 1);
  }

  /// Returns the bytes of the entries that fill a buffer.
  [[nodiscard]] std::int64_t full_bytes() const { return capacity_ * static_cast<std::int64_t>(sizeof(T) + sizeof(std::uint32_t)); }
  /// Returns how many tags phases take.
  [[nodiscard]] std::size_t tags_of_phases() const { return most_phases_ > 0 ? 1 + most_phases_ : 0; }
  /// Makes the exchanges of a division, with tags from `first_tag` on.
  [[nodiscard]] Exchanges<T> make_exchanges(const Division& division, std::size_t first_tag) const {
    Exchanges<T> exchanges;
    for (std::size_t i = 0; i < division.size(); ++i)
      exchanges.push_back(make_exchange(fmt::format("{} {}: {}", config().name, i, words_of(division[i])), priority_of(division[i]),
                                        first_tag + i, std::make_shared<const Contents<T>>(contents_of(division[i]))));
    return exchanges;
  }
  void make_phases(std::size_t first_tag) {
    if (most_phases_ == 0) return;
    counting_ = std::make_unique<Agreement>(shared_.comm, config().name, "number of buffers", shared_.tag(first_tag), 1,
                                            shared_.statistics);
    const auto whole = std::make_shared<const Contents<T>>(contents_of_phases());
    for (std::size_t i = 0; i < most_phases_; ++i)
      phases_.push_back(
          make_exchange(fmt::format("{} {}: as gradients come", config().name, i), config().priority, first_tag + 1 + i, whole));
  }
  /// Puts a division in force. Only the first call allocates.
  void use(Division division, Exchanges<T> exchanges) {
    division_ = std::move(division);
    exchanges_ = std::move(exchanges);
    buffer_of_.resize(tensors().size(), -1);
    for (std::size_t i = 0; i < division_.size(); ++i)
      for (const int tensor : division_[i]) buffer_of_[static_cast<std::size_t>(tensor)] = static_cast<int>(i);
  }

  /// Prepares for the next iteration.
  void rearm() {
    begun_ = 0;
    filled_ = 0;
    phase_ = Phase::filling;
    for (auto& unit : units_) unit->awaited = static_cast<int>(unit->parts.size());
    for_each_exchange([](Exchange<T>& exchange) { exchange.rearm(); });
  }
  /// Handles a tensor that has come, or that never will in this iteration. `error` is the error in it, if any. `select(unit,
  /// gradient)` selects, and returns the error in the unit.
  template <class Select>
  void hand_in(int tensor, ErrorReport error, const Select& select) {
    const auto [unit, part] = place(tensor);
    const bool phased = is_phased(tensor);
    Exchange<T>& exchange = phased ? *phases_[begun_] : exchange_of(tensor);
    exchange.refuse(error);
    const Slot<T>& slot = shared_.slots[static_cast<std::size_t>(tensor)];
    if (unit != nullptr) {
      const bool alone = unit->parts.size() == 1;
      const bool contributes = slot.arrival == Arrival::contributes;
      if (!alone && contributes) unit->copy_in(unit->parts[part], slot.gradient);
      if (!alone && !contributes) unit->leave_out(unit->parts[part]);
      if (--unit->awaited > 0) return;
      if (!exchange.refused() && (!alone || contributes)) {
        try {
          const ErrorReport non_finite = select(*unit, alone ? slot.gradient : nullptr);
          phased ? fill_phase(*unit, non_finite) : exchange.fill(*unit, non_finite);
        } catch (...) {
          exchange.break_off(std::current_exception());
        }
      } else if (!alone) {
        unit->settled();  // restores the residuals that were set aside
      }
    }
    if (!phased && --exchange.awaited == 0) exchange.start();
  }
  /// Ends the filling of phases: no more units come in this iteration.
  void close() {
    if (!counting_ || phase_ != Phase::filling) return;
    phase_ = Phase::counting;
    if (filled_ > 0 || phases_[begun_]->has_news()) start_next();
    counting_->words[0] = begun_;
    counting_->start(1);
  }
  /// Starts the last phases, once their agreed number is known.
  void start_last() {
    while (counting_ && begun_ < counting_->words[0]) start_next();
  }
  /// Returns true if the exchanges of a tensor have ended.
  [[nodiscard]] bool finished(std::int64_t tensor) {
    if (!is_phased(tensor)) return exchange_of(tensor).run.finished;
    if (!counting_->run.finished) return false;
    start_last();
    return std::all_of(phases_.begin(), phases_.end(), [](const auto& exchange) { return exchange->run.finished; });
  }
  /// Finishes the exchanges of a tensor by finish(call). Returns false if the iteration ends in an error.
  template <class Finish>
  [[nodiscard]] bool finish(std::int64_t tensor, const Finish& finish) {
    if (is_phased(tensor)) {
      finish_phases(finish);
      return std::none_of(phases_.begin(), phases_.end(), [](const auto& e) { return e->started() && e->outcome() != nullptr; });
    }
    finish(exchange_of(tensor));
    return exchange_of(tensor).outcome() == nullptr;
  }
  template <class Finish>
  void finish_phases(const Finish& finish) {
    if (!counting_ || phase_ == Phase::delivered) return;
    finish(*counting_);
    if (const std::exception_ptr& error = counting_->outcome()) std::rethrow_exception(error);
    start_last();
    for (const auto& exchange : phases_)
      if (exchange->started()) finish(*exchange);
    deliver_phases();
  }
  /// Returns true if the update of a tensor has been delivered.
  [[nodiscard]] bool delivered(std::int64_t tensor) const {
    if (is_phased(tensor)) return phase_ == Phase::delivered;
    return exchange_of(tensor).started() && exchange_of(tensor).run.finished;
  }

  void reset() {
    for (auto& unit : units_) unit->contribution.reset();
    for_each_exchange([](Exchange<T>& exchange) { exchange.reset(); });
  }
  void scale(double factor) {
    for (const auto& unit : units_) unit->contribution.scale(factor);
    for_each_exchange([&](Exchange<T>& exchange) { exchange.scale(factor); });
  }
  void visit_units(StateVisitor& visitor) {
    for (std::size_t i = 0; i < units_.size(); ++i) visit_unit(visitor, *units_[i], i);
  }
  void visit_exchanges(StateVisitor& visitor) {
    for (std::size_t i = 0; i < exchanges_.size(); ++i) exchanges_[i]->visit_state(visitor, fmt::format("buffer{}", i));
    for (std::size_t i = 0; i < phases_.size(); ++i) phases_[i]->visit_state(visitor, fmt::format("phase{}", i));
  }
  [[nodiscard]] std::int64_t memory_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& unit : units_) bytes += unit->memory_bytes();
    for_each_exchange([&](const Exchange<T>& exchange) { bytes += exchange.memory_bytes(); });
    return bytes;
  }

  /// Calls body(exchange) for the exchange of each buffer, then of each phase.
  template <class Body>
  void for_each_exchange(const Body& body) const {
    for (const auto& exchange : exchanges_) body(*exchange);
    for (const auto& exchange : phases_) body(*exchange);
  }
  [[nodiscard]] const Division& division() const { return division_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Unit<T>>>& units() const { return units_; }
  [[nodiscard]] const Exchanges<T>& exchanges() const { return exchanges_; }
  /// Returns the agreement on the number of phases, or nullptr.
  [[nodiscard]] Agreement* counting() const { return counting_.get(); }
  /// Returns true if a tensor goes into phases.
  [[nodiscard]] bool is_phased(std::int64_t tensor) const { return counting_ && place(tensor).unit != nullptr; }
  /// Returns -1 with `ahead`, which places tensors as they come.
  [[nodiscard]] int buffer_of(std::int64_t tensor) const { return buffer_of_[static_cast<std::size_t>(tensor)]; }
  [[nodiscard]] const T* residual(int tensor) const {
    const auto& [unit, part] = place(tensor);
    if (unit == nullptr || unit->contribution.residual().empty()) return nullptr;
    return unit->contribution.residual().data() + unit->parts[part].begin;
  }

  /// Returns a text that lists the tensors of each buffer and how its exchange runs.
  [[nodiscard]] std::string explanation() const {
    std::string text;
    if (counting_)
      text = fmt::format("up to {} buffers of {} entries, filled as gradients come{}", most_phases_, capacity_,
                         phases_.front()->explanation());
    for (std::size_t i = 0; i < division_.size(); ++i)
      text += fmt::format("buffer {}: {}{}", i, words_of(division_[i]), exchanges_[i]->explanation());
    return text;
  }
  /// Returns a text such as " 4 2,3 0,1", and before it how many entries fill a phase.
  [[nodiscard]] std::string text_of_division() const {
    std::string text = counting_ ? fmt::format("of {}", capacity_) : std::string();
    for (const std::vector<int>& buffer : division_) {
      for (const int tensor : buffer) text += fmt::format("{}{}", tensor == buffer.front() ? " " : ",", tensor);
    }
    return text;
  }

 private:
  /// A tensor's unit, and the tensor's part in it. The unit is null for a dense tensor.
  struct Place {
    Unit<T>* unit = nullptr;
    std::size_t part = 0;
  };
  /// The position of all phases in an iteration.
  enum class Phase : std::uint8_t { filling, counting, delivered };

  [[nodiscard]] const FusionConfig& config() const { return shared_.config; }
  [[nodiscard]] std::span<const FusedTensor> tensors() const { return shared_.tensors; }
  [[nodiscard]] const FusedTensor& described(int tensor) const { return tensors()[static_cast<std::size_t>(tensor)]; }
  [[nodiscard]] const Place& place(std::int64_t tensor) const { return places_[static_cast<std::size_t>(tensor)]; }
  [[nodiscard]] Exchange<T>& exchange_of(std::int64_t tensor) const {
    return *exchanges_[static_cast<std::size_t>(buffer_of(tensor))];
  }
  [[nodiscard]] std::unique_ptr<Exchange<T>> make_exchange(std::string name, int priority, std::size_t tag,
                                                           std::shared_ptr<const Contents<T>> contents) const {
    return std::make_unique<Exchange<T>>(shared_.comm, shared_, std::move(name), priority, shared_.tag(tag), std::move(contents));
  }

  /// Makes a unit of the sparse tensors among `buffer`.
  void make_unit(const std::vector<int>& buffer) {
    std::vector<Part> parts;
    SelectionSetup setup{.threshold = shared_.threshold()};
    bool any_optional = false;
    for (const int tensor : buffer) {
      const FusedTensor& t = described(tensor);
      if (t.dense) continue;
      parts.push_back({tensor, setup.count, t.count});
      setup.count += t.count;
      setup.largest_k += k_of(config(), t);
      any_optional = any_optional || t.optional;
    }
    if (parts.empty()) return;
    const ContributionRules rules{.selection = setup,
                                  .most_selected = most_selected(setup.threshold.at_most_k(), setup.count, setup.largest_k),
                                  .feedback = {},
                                  .keeps_residual = config().error_feedback == Feedback::residual,
                                  .refuses_non_finite = config().non_finite != NonFinite::propagate,
                                  .wire = {config().wire_format, config().wire_values}};
    Unit<T>* const unit =
        units_.emplace_back(std::make_unique<Unit<T>>(std::move(parts), rules, shared_.threads, any_optional)).get();
    for (std::size_t part = 0; part < unit->parts.size(); ++part)
      places_[static_cast<std::size_t>(unit->parts[part].tensor)] = {unit, part};
  }

  [[nodiscard]] Contents<T> contents_of(const std::vector<int>& buffer) const {
    Contents<T> contents;
    const Unit<T>* last = nullptr;
    for (const int tensor : buffer) {
      Unit<T>* const unit = place(tensor).unit;
      if (unit == nullptr) {
        contents.add_dense(tensor, described(tensor).count);
      } else if (unit != last) {
        contents.add(*unit);
        last = unit;
      }
    }
    return contents;
  }
  [[nodiscard]] Contents<T> contents_of_phases() const {
    Contents<T> contents;
    std::int64_t largest = capacity_, selected = 0;
    for (const auto& unit : units_) {
      contents.add(*unit);
      selected += unit->most_selected;
      largest = std::max(largest, unit->most_selected);
    }
    contents.k = std::min(selected, largest);
    contents.delivers_late = true;
    return contents;
  }

  /// Returns the priority of a buffer. Buffers that the forward pass needs first have precedence.
  [[nodiscard]] int priority_of(const std::vector<int>& buffer) const {
    const std::int64_t above = std::ssize(tensors()) - 1 - (buffer.empty() ? 0 : buffer.front());
    return static_cast<int>(std::min<std::int64_t>(config().priority + above, std::numeric_limits<int>::max()));
  }

  /// Returns a text such as "'layer1.weight'" or "'layer1.weight' to 'layer3.bias' (6 tensors)".
  [[nodiscard]] std::string words_of(const std::vector<int>& buffer) const {
    if (buffer.empty()) return "nothing";
    const std::string& first = described(buffer.front()).name;
    const bool neighbours = buffer.back() - buffer.front() + 1 == std::ssize(buffer);
    if (buffer.size() > 4)
      return fmt::format("'{}' to '{}' ({} tensors{})", first, described(buffer.back()).name, buffer.size(),
                         neighbours ? "" : ", not all between them");
    std::string text;
    for (const int tensor : buffer) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", described(tensor).name);
    return text;
  }

  void visit_unit(StateVisitor& visitor, Unit<T>& unit, std::size_t number) {
    const StateVisitor::Copy copy = [](void* to, const void* from, std::int64_t bytes) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    };
    T* const residual = unit.contribution.residual().data();
    for (const Part& part : unit.parts) {
      const StateVisitor::Scope scope(visitor, "tensor");
      const StateVisitor::Scope name(visitor, described(part.tensor).name);
      const std::int64_t count = residual != nullptr ? part.count : 0;
      const StateVisitor::Placed placed(visitor, {Share::summed, range_of(part.count, 0, count)});
      visitor.array("residual", residual != nullptr ? residual + part.begin : nullptr, count, copy);
      if (unit.parts.size() == 1) {
        const StateVisitor::Scope selector(visitor, "selector");
        const StateVisitor::Placed each(visitor, {});
        unit.contribution.visit_selector(visitor);
      }
    }
    if (unit.parts.size() == 1) return;
    const StateVisitor::Scope scope(visitor, fmt::format("unit{}", number));
    const StateVisitor::Scope selector(visitor, "selector");
    unit.contribution.visit_selector(visitor);
  }

  // Phases.

  void fill_phase(Unit<T>& unit, ErrorReport error) {
    const std::int64_t count = unit.contribution.selection().count;
    if (filled_ > 0 && filled_ + count > capacity_) start_next();
    phases_[begun_]->fill(unit, error);
    filled_ += count;
  }
  void start_next() {
    phases_[begun_++]->start();
    filled_ = 0;
  }
  /// Puts the sum of all phases into gradients.
  void deliver_phases() {
    phase_ = Phase::delivered;
    // Ranks have different tensors in a buffer. If one buffer fails, tensors would get part of their sum, so no buffer is
    // delivered.
    bool failed = false, skipped = true;
    for (const auto& exchange : phases_) {
      failed = failed || exchange->failed();
      skipped = skipped && !exchange->outcome();
    }
    for (const auto& exchange : phases_) failed ? exchange->roll_back() : exchange->settle();
    if (!failed)
      for (const auto& exchange : phases_) exchange->give_back_undelivered();
    if (!skipped) return;
    for (const auto& unit : units_) {
      const Slot<T>& slot = slot_of(*unit);
      if (slot.gradient != nullptr) shared_.memory.fill_zero(slot.gradient, unit->count);
    }
    if (failed) return;
    for (const auto& exchange : phases_)
      if (exchange->started()) add(exchange->update());
  }
  void add(SparseVector<T> update) {
    const auto& places = phases_.front()->contents().units;
    auto place = places.begin();
    for (std::int64_t i = 0; i < update.count; ++i) {
      const std::int64_t index = update.indices[i];
      while (index >= place->begin + place->unit->count) ++place;
      Slot<T>& slot = slot_of(*place->unit);
      ++slot.delivered;
      if (slot.gradient != nullptr) slot.gradient[index - place->begin] += update.values[i];
    }
  }
  [[nodiscard]] Slot<T>& slot_of(const Unit<T>& unit) { return shared_.slots[static_cast<std::size_t>(unit.parts.front().tensor)]; }

  Shared<T>& shared_;
  std::int64_t capacity_;  // entries that fill a buffer
  Division division_;
  std::vector<std::unique_ptr<Unit<T>>> units_;
  std::vector<Place> places_;  // per tensor
  std::vector<int> buffer_of_;
  Exchanges<T> exchanges_;               // per buffer of the division
  std::size_t most_phases_ = 0;          // 0 without phases
  std::unique_ptr<Agreement> counting_;  // of phases
  Exchanges<T> phases_;
  // In one iteration:
  std::size_t begun_ = 0;    // phases that have started
  std::int64_t filled_ = 0;  // entries in the next one
  Phase phase_ = Phase::filling;
};

}  // namespace weir::fusion
