// phases.hpp: the buffers of `ahead`: each rank fills one after the other with whatever tensors come (SAFusion's naive scheme).
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "fusion/agreement.hpp"
#include "fusion/buffers.hpp"

namespace weir::fusion {

/// Every buffer spans the whole model. Each rank fills as many as it needs. Ranks agree on the largest number, and all take part in
/// that many exchanges. The update is the sum of all buffers. It is in the gradients once all exchanges have ended.
template <class T>
class Phases {
 public:
  /// `shared` and `units` must outlive the object.
  Phases(Shared<T>& shared, const std::vector<std::unique_ptr<Unit<T>>>& units)
      : shared_(shared), units_(units), capacity_(entries_of_buffer<T>(shared.config)) {
    std::int64_t small = 0, large = 0;
    for (const auto& unit : units_) {
      const bool is_large = unit->most_selected > capacity_;
      (is_large ? large : small) += is_large ? 1 : unit->most_selected;
    }
    // Two neighbouring buffers are more than full together, unless a large tensor comes between.
    most_ = static_cast<std::size_t>(2 * large + 2 * ((small + capacity_ - 1) / capacity_) + 1);
  }
  /// Returns how many tags open() takes.
  [[nodiscard]] std::size_t tags() const { return 1 + most_; }
  void open(const std::shared_ptr<detail::CommunicatorState>& comm, std::size_t first_tag) {
    const std::string& name = shared_.config.name;
    counting_ = std::make_unique<Agreement>(comm, name, "number of buffers", shared_.tag(first_tag), 1, shared_.statistics);
    const auto whole = std::make_shared<const Contents<T>>(contents());
    for (std::size_t i = 0; i < most_; ++i)
      exchanges_.push_back(std::make_unique<Exchange<T>>(comm, shared_, fmt::format("{} {}: as gradients come", name, i),
                                                         shared_.config.priority, shared_.tag(first_tag + 1 + i), whole));
  }

  /// Prepares for the next iteration.
  void rearm() {
    begun_ = 0;
    filled_ = 0;
    state_ = State::filling;
    for (auto& exchange : exchanges_) exchange->rearm();
  }
  /// Returns the buffer that is being filled.
  [[nodiscard]] Exchange<T>& filling() { return *exchanges_[begun_]; }
  /// Adds a unit that has selected. `error`: the error in the unit, if any.
  void fill(Unit<T>& unit, ErrorReport error) {
    const std::int64_t count = unit.contribution.selection().count;
    if (filled_ > 0 && filled_ + count > capacity_) start_next();
    filling().fill(unit, error);
    filled_ += count;
  }
  /// Ends the filling: no more units come in this iteration.
  void end() {
    if (state_ != State::filling) return;
    state_ = State::counting;
    if (filled_ > 0 || filling().has_news()) start_next();
    counting_->words[0] = begun_;
    counting_->start(1);
  }

  /// Returns the agreement on the number of buffers, which end() starts. It must finish before start_last().
  [[nodiscard]] Agreement& counting() const { return *counting_; }
  /// Starts the last buffers, once the agreed number is known.
  void start_last() {
    while (begun_ < counting_->words[0]) start_next();
  }
  /// Returns the exchanges. deliver() puts their sum into gradients after all started ones have finished.
  [[nodiscard]] const Exchanges<T>& exchanges() const { return exchanges_; }
  [[nodiscard]] bool all_finished() const {
    return std::all_of(exchanges_.begin(), exchanges_.end(), [](const auto& exchange) { return exchange->run.finished; });
  }
  [[nodiscard]] bool delivered() const { return state_ == State::delivered; }
  /// Returns true, after deliver(), if the iteration ends in an error.
  [[nodiscard]] bool threw() const {
    return std::any_of(exchanges_.begin(), exchanges_.end(), [](const auto& e) { return e->started() && e->outcome() != nullptr; });
  }
  void deliver() {
    state_ = State::delivered;
    // Ranks have different tensors in a buffer. If one buffer fails, tensors would get part of their sum, so no buffer is
    // delivered.
    bool failed = false, skipped = true;
    for (const auto& exchange : exchanges_) {
      failed = failed || exchange->failed();
      skipped = skipped && !exchange->outcome();
    }
    for (const auto& exchange : exchanges_) failed ? exchange->roll_back() : exchange->settle();
    if (!failed)
      for (const auto& exchange : exchanges_) exchange->give_back_undelivered();
    if (!skipped) return;
    for (const auto& unit : units_) {
      const Slot<T>& slot = slot_of(*unit);
      if (slot.gradient != nullptr) shared_.memory.fill_zero(slot.gradient, unit->count);
    }
    if (failed) return;
    for (const auto& exchange : exchanges_)
      if (exchange->started()) add(exchange->update());
  }

  [[nodiscard]] std::int64_t capacity() const { return capacity_; }
  [[nodiscard]] std::string explanation() const {
    return fmt::format("up to {} buffers of {} entries, filled as gradients come{}", most_, capacity_,
                       exchanges_.front()->explanation());
  }

 private:
  enum class State : std::uint8_t { filling, counting, delivered };

  [[nodiscard]] Slot<T>& slot_of(const Unit<T>& unit) { return shared_.slots[static_cast<std::size_t>(unit.parts.front().tensor)]; }

  [[nodiscard]] Contents<T> contents() const {
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

  void start_next() {
    exchanges_[begun_++]->start();
    filled_ = 0;
  }

  void add(SparseVector<T> update) {
    const auto& places = exchanges_.front()->contents().units;
    auto place = places.begin();
    for (std::int64_t i = 0; i < update.count; ++i) {
      const std::int64_t index = update.indices[i];
      while (index >= place->begin + place->unit->count) ++place;
      Slot<T>& slot = slot_of(*place->unit);
      ++slot.delivered;
      if (slot.gradient != nullptr) slot.gradient[index - place->begin] += update.values[i];
    }
  }

  Shared<T>& shared_;
  const std::vector<std::unique_ptr<Unit<T>>>& units_;
  std::int64_t capacity_;  // entries per buffer
  std::size_t most_ = 0;   // number of buffers
  std::unique_ptr<Agreement> counting_;
  Exchanges<T> exchanges_;
  // In one iteration:
  std::size_t begun_ = 0;    // buffers that have started
  std::int64_t filled_ = 0;  // entries in the next one
  State state_ = State::filling;
};

}  // namespace weir::fusion
