// subject.hpp: an object that was added to a checkpoint, of any kind, and a visitor of its state.
#pragma once

#include <functional>
#include <string>
#include <weir/checkpoint.hpp>

#include "base/state.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// Calls put(visit, data, copy) for every field. `copy` is null if `data` is a few numbers or a text, which are not arrays.
class FieldVisitor final : public StateVisitor {
 public:
  using Put = std::function<void(const FieldVisit& visit, const void* data, const Copy* copy)>;
  FieldVisitor(std::string subject, Put put) : StateVisitor(std::move(subject)), put_(std::move(put)) {}
  [[nodiscard]] bool restores() const override { return false; }
  using StateVisitor::refuse_field;

 private:
  void field(FieldVisit visit, void* data, const Copy* copy) override { put_(visit, data, copy); }
  void text_field(FieldVisit visit, std::string_view here) override { put_(visit, here.data(), nullptr); }

  Put put_;
};

/// Purpose of a visit. State that is the same on every rank is saved in parts, and restored whole.
enum class Purpose { save, restore };

struct AddedSubject {
  Kind kind{};
  std::string name;
  /// Visits the state. Throws Error if the object is in flight, or no longer exists.
  std::function<void(StateVisitor& visitor, Purpose purpose)> visit;
  std::function<Values()> about;  ///< returns the configuration

  /// Returns its name in texts, for example "plan 'gradient'".
  [[nodiscard]] std::string words() const { return Subject{kind, name, {}, {}}.words(); }
  /// Returns the outline, with small values.
  [[nodiscard]] Subject outline(Purpose purpose) const;
};

/// Returns the first element that `rank` saves of `count` elements that all ranks have. It saves up to the next rank's first.
[[nodiscard]] std::int64_t part_begin_of(std::int64_t count, int rank, int ranks);

struct ArrayView {
  void* data = nullptr;
  ElementType type{};
  Distribution distribution{};
  std::int64_t count = 0, first = 0, total = 0;
};
/// Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] AddedSubject added_array(std::string name, const ArrayView& array, int rank, int ranks);

}  // namespace weir::checkpoint
