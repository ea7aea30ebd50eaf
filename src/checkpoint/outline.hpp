// outline.hpp: visitors that say what a subject's state is made of, and that take its arrays.
#pragma once

#include <functional>
#include <vector>

#include "base/state.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// Lists the fields, and takes what is small.
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

}  // namespace weir::checkpoint
