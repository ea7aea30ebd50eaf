// subject.hpp: an object that was added to a checkpoint, of any kind, and visitors that list its state and copy its arrays.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>
#include <weir/checkpoint.hpp>

#include "base/state.hpp"
#include "checkpoint/layout.hpp"
#include "communicator/communicator.hpp"

namespace weir::checkpoint {

/// Lists the fields, and copies the small ones.
class OutlineVisitor final : public StateVisitor {
 public:
  explicit OutlineVisitor(std::string subject) : StateVisitor(std::move(subject)) {}
  [[nodiscard]] bool restores() const override { return false; }
  [[nodiscard]] std::vector<OutlinedField> take() { return std::move(fields_); }

 private:
  void field(FieldVisit visit, void* data, const Copy* copy) override;
  void text_field(FieldVisit visit, std::string_view here) override;

  std::vector<OutlinedField> fields_;
};

/// Calls put(visit, data, copy) for every array.
class ArrayVisitor final : public StateVisitor {
 public:
  using Put = std::function<void(const FieldVisit& visit, const void* data, const Copy& copy)>;
  ArrayVisitor(std::string subject, Put put) : StateVisitor(std::move(subject)), put_(std::move(put)) {}
  [[nodiscard]] bool restores() const override { return false; }

 private:
  void field(FieldVisit visit, void* data, const Copy* copy) override {
    if (copy != nullptr) put_(visit, data, *copy);
  }
  void text_field(FieldVisit /*visit*/, std::string_view /*here*/) override {}

  Put put_;
};

/// Purpose of a visit. State that is the same on every rank is saved in parts, and restored whole.
enum class Purpose { save, restore };

class AddedSubject {
 public:
  using Visit = std::function<void(StateVisitor& visitor, Purpose purpose)>;

  AddedSubject(Kind kind, std::string name, Visit visit, std::function<Values()> about)
      : kind_(kind), name_(std::move(name)), visit_(std::move(visit)), about_(std::move(about)) {}

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Returns its name in texts, for example "plan 'gradient'".
  [[nodiscard]] std::string words() const;
  /// Throws Error if the object is in flight, or no longer exists.
  void visit(StateVisitor& visitor, Purpose purpose) const { visit_(visitor, purpose); }
  /// Returns the outline, with small values.
  [[nodiscard]] OutlinedSubject outline(Purpose purpose) const;

 private:
  Kind kind_;
  std::string name_;
  Visit visit_;
  std::function<Values()> about_;
};

[[nodiscard]] AddedSubject added_plan(std::string name, const std::shared_ptr<detail::PlanImpl>& plan);
[[nodiscard]] AddedSubject added_table(std::string name, const std::shared_ptr<detail::EmbeddingState>& table);
[[nodiscard]] AddedSubject added_fused(std::string name, const std::shared_ptr<detail::FusedImpl>& fused);
[[nodiscard]] AddedSubject added_optimizer(std::string name, const std::shared_ptr<detail::OptimizerImpl>& optimizer);
[[nodiscard]] AddedSubject added_sparse_adam(std::string name, const std::shared_ptr<detail::SparseAdamState>& adam, int rank,
                                             int ranks);
[[nodiscard]] AddedSubject added_schedule(std::string name, const StepSchedule& schedule);

struct ArrayView {
  void* data = nullptr;
  ElementType type{};
  Distribution distribution{};
  std::int64_t count = 0, first = 0, total = 0;
};
/// Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] AddedSubject added_array(std::string name, const ArrayView& array, int rank, int ranks);

}  // namespace weir::checkpoint
