#include "checkpoint/subject.hpp"

#include <algorithm>
#include <cstring>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "embedding/table.hpp"
#include "fusion/fused.hpp"
#include "optim/layer_optimizer.hpp"
#include "optim/sparse_adam.hpp"
#include "plan/plan.hpp"

namespace weir::checkpoint {
namespace {

template <class Config>
Values values_of(const Config& config) {
  Values values;
  visit_fields(config, [&](const FieldInfo& field, const auto& value) {
    using V = std::remove_cvref_t<decltype(value)>;
    const std::string name(field.name);
    if constexpr (std::is_enum_v<V>)
      values[name] = std::string(name_of(value));
    else if constexpr (std::is_same_v<V, std::string>)
      values[name] = value;
    else if constexpr (std::is_floating_point_v<V>)
      values[name] = static_cast<double>(value);
    else
      values[name] = static_cast<std::int64_t>(value);
  });
  return values;
}

/// Returns the object of a subject. Throws if it no longer exists.
template <class Impl>
std::shared_ptr<Impl> alive(const std::weak_ptr<Impl>& weak, Kind kind, const std::string& name) {
  std::shared_ptr<Impl> there = weak.lock();
  if (!there)
    fail(WEIR_ERR_STATE, "{} '{}' was destroyed: a checkpoint that it was added to saves and restores no more", word_of(kind),
         name);
  return there;
}

template <class Impl, class Config>
AddedSubject added(Kind kind, std::string name, const std::shared_ptr<Impl>& impl, Config config_of) {
  const std::weak_ptr<Impl> weak = impl;
  return {kind, name, [=](StateVisitor& visitor, Purpose) { alive(weak, kind, name)->visit_state(visitor); },
          [=] { return values_of(config_of(*alive(weak, kind, name))); }};
}

template <class T>
void visit_array(StateVisitor& visitor, const ArrayView& array, std::int64_t skip, std::int64_t count) {
  const StateVisitor::Copy copy = [](void* to, const void* from, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  };
  visitor.array("elements", static_cast<T*>(array.data) + skip, count, copy);
}

void visit_array(StateVisitor& visitor, const ArrayView& array, std::int64_t skip, std::int64_t count) {
  switch (array.type) {
    case ElementType::float32:
      return visit_array<float>(visitor, array, skip, count);
    case ElementType::float64:
      return visit_array<double>(visitor, array, skip, count);
    case ElementType::int32:
      return visit_array<std::int32_t>(visitor, array, skip, count);
    case ElementType::int64:
      return visit_array<std::int64_t>(visitor, array, skip, count);
    case ElementType::uint8:
      return visit_array<std::uint8_t>(visitor, array, skip, count);
  }
}

/// Returns the first element that `rank` saves of `count` elements that all ranks have. It saves up to the next rank's first.
/// Parts are equal, so chunks of one size fit them all. One rank saves a small array, since each part takes room of its own.
std::int64_t part_begin_of(std::int64_t count, int rank, int ranks) {
  constexpr std::int64_t least = std::int64_t{1} << 18;
  const std::int64_t parts = std::clamp<std::int64_t>(count / least, 1, ranks);
  return count * (parts * rank / ranks) / parts;
}

}  // namespace

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

std::string AddedSubject::words() const { return fmt::format("{} '{}'", word_of(kind_), name_); }

OutlinedSubject AddedSubject::outline(Purpose purpose) const {
  OutlineVisitor visitor(words());
  visit(visitor, purpose);
  return {kind_, name_, about_(), visitor.take()};
}

AddedSubject added_plan(std::string name, const std::shared_ptr<detail::PlanImpl>& plan) {
  return added(Kind::plan, std::move(name), plan, [](const detail::PlanImpl& p) { return p.config; });
}

AddedSubject added_table(std::string name, const std::shared_ptr<detail::EmbeddingState>& table) {
  return added(Kind::table, std::move(name), table, [](const detail::EmbeddingState& t) { return t.config(); });
}

AddedSubject added_fused(std::string name, const std::shared_ptr<detail::FusedImpl>& fused) {
  return added(Kind::fused, std::move(name), fused, [](const detail::FusedImpl& f) { return f.config; });
}

AddedSubject added_optimizer(std::string name, const std::shared_ptr<detail::OptimizerImpl>& optimizer) {
  const std::weak_ptr<detail::OptimizerImpl> weak = optimizer;
  return {Kind::optimizer, name,
          [=](StateVisitor& visitor, Purpose purpose) {
            alive(weak, Kind::optimizer, name)->visit_state(visitor, purpose == Purpose::save);
          },
          [=] { return values_of(alive(weak, Kind::optimizer, name)->config); }};
}

AddedSubject added_sparse_adam(std::string name, const std::shared_ptr<detail::SparseAdamState>& adam, int rank, int ranks) {
  const std::weak_ptr<detail::SparseAdamState> weak = adam;
  return {Kind::optimizer, name,
          [=](StateVisitor& visitor, Purpose purpose) {
            const auto there = alive(weak, Kind::optimizer, name);
            const std::int64_t all = there->config.count;
            if (purpose == Purpose::restore) return there->visit_state(visitor, 0, all);
            there->visit_state(visitor, part_begin_of(all, rank, ranks), part_begin_of(all, rank + 1, ranks));
          },
          [=] { return values_of(alive(weak, Kind::optimizer, name)->config); }};
}

AddedSubject added_schedule(std::string name, const StepSchedule& schedule) {
  const StepSchedule* const there = &schedule;
  return {Kind::schedule, std::move(name),
          [=](StateVisitor& visitor, Purpose) {
            std::string blocks;
            for (const std::string_view block : there->blocks()) blocks += fmt::format("{}{}", blocks.empty() ? "" : "\n", block);
            visitor.text("blocks", blocks);
          },
          [] { return Values{}; }};
}

AddedSubject added_array(std::string name, const ArrayView& array, int rank, int ranks) {
  require(static_cast<std::size_t>(array.type) < names_of<ElementType>.size(), "array '{}': type is {}: it must be {}", name,
          static_cast<int>(array.type), choices_of<ElementType>());
  require(static_cast<std::size_t>(array.distribution) < names_of<Distribution>.size(),
          "array '{}': distribution is {}: it must be {}", name, static_cast<int>(array.distribution), choices_of<Distribution>());
  constexpr std::int64_t most = std::int64_t{1} << 48;
  require(array.count >= 0 && array.count <= most, "array '{}': count is {}: it must be between 0 and 2^48", name, array.count);
  require(array.count == 0 || array.data != nullptr, "array '{}': the address is null and count is {}", name, array.count);
  if (array.distribution == Distribution::block)
    require(array.first >= 0 && array.total <= most && array.first <= array.total - array.count,
            "array '{}': this rank's {} elements from {} on are not within 0 to total, {}", name, array.count, array.first,
            array.total);
  return {Kind::array, std::move(name),
          [=](StateVisitor& visitor, Purpose purpose) {
            std::int64_t skip = 0, count = array.count;
            Placement placement;
            if (array.distribution == Distribution::block) {
              placement = {Share::block, range_of(array.total, array.first, count)};
            } else if (array.distribution == Distribution::replicated) {
              if (purpose == Purpose::save) {
                skip = part_begin_of(array.count, rank, ranks);
                count = part_begin_of(array.count, rank + 1, ranks) - skip;
              }
              placement = {Share::block, range_of(array.count, skip, count)};
            }
            const StateVisitor::Placed placed(visitor, placement);
            visit_array(visitor, array, skip, count);
          },
          [=] {
            return Values{{"distribution", std::string(name_of(array.distribution))}, {"type", std::string(name_of(array.type))}};
          }};
}

}  // namespace weir::checkpoint
