// buffers.hpp: the tensors of a model as units, each sparsified as a whole, and as buffers, each exchanged as a whole.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fusion/division.hpp"
#include "fusion/exchange.hpp"
#include "fusion/scheme.hpp"
#include "fusion/setup.hpp"

namespace weir::fusion {

/// Returns the number of entries that fill a buffer.
template <class T>
[[nodiscard]] std::int64_t entries_of_buffer(const FusionConfig& config) {
  return std::max<std::int64_t>(1, std::llround(config.density * static_cast<double>(config.buffer_bytes / sizeof(T))));
}
/// Returns the bytes of the entries that fill a buffer.
template <class T>
[[nodiscard]] std::int64_t bytes_of_buffer(const FusionConfig& config) {
  return entries_of_buffer<T>(config) * static_cast<std::int64_t>(sizeof(T) + sizeof(std::uint32_t));
}

template <class T>
using Exchanges = std::vector<std::unique_ptr<Exchange<T>>>;

template <class T>
class Buffers {
 public:
  /// A tensor's unit, and the tensor's part in it. The unit is null for a dense tensor.
  struct Place {
    Unit<T>* unit = nullptr;
    std::size_t part = 0;
  };

  /// Makes the units. `shared` must outlive the object.
  Buffers(Shared<T>& shared, const FusionSetup& setup)
      : shared_(shared),
        division_(setup.scheme->divide({setup.line, setup.cost, setup.config.buffer_bytes, bytes_of_buffer<T>(setup.config)})),
        places_(tensors().size()) {
    if (setup.scheme->selects_in_buffers) {
      for (const std::vector<int>& buffer : division_) make_unit(buffer);
    } else {
      for (int tensor = 0; tensor < static_cast<int>(tensors().size()); ++tensor) make_unit({tensor});
    }
  }

  /// Makes the exchanges of a division, with tags from `first_tag` on.
  [[nodiscard]] Exchanges<T> make_exchanges(const std::shared_ptr<detail::CommunicatorState>& comm, const Division& division,
                                            std::size_t first_tag) const {
    Exchanges<T> exchanges;
    for (std::size_t i = 0; i < division.size(); ++i)
      exchanges.push_back(std::make_unique<Exchange<T>>(
          comm, shared_, fmt::format("{} {}: {}", shared_.config.name, i, words_of(division[i])), priority_of(division[i]),
          shared_.tag(first_tag + i), std::make_shared<const Contents<T>>(contents_of(division[i]))));
    return exchanges;
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
    for (auto& unit : units_) unit->awaited = static_cast<int>(unit->parts.size());
    for (auto& exchange : exchanges_) exchange->rearm();
  }
  void reset_units() {
    for (auto& unit : units_) unit->contribution.reset();
  }
  void visit_units(StateVisitor& visitor) {
    for (std::size_t i = 0; i < units_.size(); ++i) visit_unit(visitor, *units_[i], i);
  }

  [[nodiscard]] const Division& division() const { return division_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Unit<T>>>& units() const { return units_; }
  [[nodiscard]] const Exchanges<T>& exchanges() const { return exchanges_; }
  [[nodiscard]] const Place& place(std::int64_t tensor) const { return places_[static_cast<std::size_t>(tensor)]; }
  /// Returns -1 with `ahead`, which places tensors as they come.
  [[nodiscard]] int buffer_of(std::int64_t tensor) const { return buffer_of_[static_cast<std::size_t>(tensor)]; }
  [[nodiscard]] Exchange<T>& exchange_of(std::int64_t tensor) const {
    return *exchanges_[static_cast<std::size_t>(buffer_of(tensor))];
  }
  [[nodiscard]] const T* residual(int tensor) const {
    const auto& [unit, part] = place(tensor);
    if (unit == nullptr || unit->contribution.residual().empty()) return nullptr;
    return unit->contribution.residual().data() + unit->parts[part].begin;
  }

  /// Returns a text that lists the tensors of each buffer and how its exchange runs.
  [[nodiscard]] std::string explanation() const {
    std::string text;
    for (std::size_t i = 0; i < division_.size(); ++i)
      text += fmt::format("buffer {}: {}{}", i, words_of(division_[i]), exchanges_[i]->explanation());
    return text;
  }
  /// Returns a text such as " 4 2,3 0,1".
  [[nodiscard]] std::string text_of_division() const {
    std::string text;
    for (const std::vector<int>& buffer : division_) {
      for (const int tensor : buffer) text += fmt::format("{}{}", tensor == buffer.front() ? " " : ",", tensor);
    }
    return text;
  }

 private:
  [[nodiscard]] std::span<const FusedTensor> tensors() const { return shared_.tensors; }
  [[nodiscard]] const FusedTensor& described(int tensor) const { return tensors()[static_cast<std::size_t>(tensor)]; }

  /// Makes a unit of the sparse tensors among `buffer`.
  void make_unit(const std::vector<int>& buffer) {
    const FusionConfig& config = shared_.config;
    std::vector<Part> parts;
    SelectionSetup setup{.threshold = shared_.threshold()};
    bool any_optional = false;
    for (const int tensor : buffer) {
      const FusedTensor& t = described(tensor);
      if (t.dense) continue;
      parts.push_back({tensor, setup.count, t.count});
      setup.count += t.count;
      setup.largest_k += k_of(config, t);
      any_optional = any_optional || t.optional;
    }
    if (parts.empty()) return;
    const ContributionRules rules{.selection = setup,
                                  .most_selected = most_selected(setup.threshold.at_most_k(), setup.count, setup.largest_k),
                                  .feedback = {},
                                  .keeps_residual = config.error_feedback == Feedback::residual,
                                  .refuses_non_finite = config.non_finite != NonFinite::propagate,
                                  .wire = {config.wire_format, config.wire_values}};
    units_.push_back(std::make_unique<Unit<T>>(std::move(parts), rules, shared_.threads, any_optional));
    Unit<T>* const unit = units_.back().get();
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

  /// Returns the priority of a buffer. Buffers that the forward pass needs first have precedence.
  [[nodiscard]] int priority_of(const std::vector<int>& buffer) const {
    const std::int64_t above = std::ssize(tensors()) - 1 - (buffer.empty() ? 0 : buffer.front());
    return static_cast<int>(std::min<std::int64_t>(shared_.config.priority + above, std::numeric_limits<int>::max()));
  }

  /// Returns a text such as "'layer1.weight'" or "'layer1.weight' to 'layer3.bias' (6 tensors)".
  [[nodiscard]] std::string words_of(const std::vector<int>& buffer) const {
    if (buffer.empty()) return "nothing";
    const std::string& first = described(buffer.front()).name;
    if (buffer.size() == 1) return fmt::format("'{}'", first);
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

  Shared<T>& shared_;
  Division division_;
  std::vector<std::unique_ptr<Unit<T>>> units_;
  std::vector<Place> places_;  // per tensor
  std::vector<int> buffer_of_;
  Exchanges<T> exchanges_;  // per buffer
};

}  // namespace weir::fusion
