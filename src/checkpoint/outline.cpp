#include "checkpoint/outline.hpp"

#include <algorithm>
#include <cstring>

namespace weir::checkpoint {

void OutlineVisitor::field(FieldVisit visit, void* data, const Copy* copy) {
  if (std::any_of(fields_.begin(), fields_.end(), [&](const OutlinedField& field) { return field.visit.name == visit.name; }))
    refuse_field(visit.name, "it is visited twice");
  OutlinedField& field = fields_.emplace_back(OutlinedField{std::move(visit), copy != nullptr, {}});
  if (field.array) return;
  field.value.resize(static_cast<std::size_t>(field.visit.bytes()));
  if (!field.value.empty()) std::memcpy(field.value.data(), data, field.value.size());
}

void OutlineVisitor::text_field(FieldVisit visit, std::string_view here) {
  std::string copy(here);
  field(std::move(visit), copy.data(), nullptr);
}

}  // namespace weir::checkpoint
