#include "checkpoint/subject.hpp"

#include <algorithm>
#include <cstring>

#include "base/config_check.hpp"
#include "base/error.hpp"

namespace weir::checkpoint {
namespace {

void visit_array(StateVisitor& visitor, const ArrayView& array, std::int64_t skip, std::int64_t count) {
  const auto visit = [&]<class T>(T* data) {
    visitor.array("elements", data + skip, count,
                  [](void* to, const void* from, std::int64_t bytes) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  };
  switch (array.type) {
    case ElementType::float32:
      return visit(static_cast<float*>(array.data));
    case ElementType::float64:
      return visit(static_cast<double*>(array.data));
    case ElementType::int32:
      return visit(static_cast<std::int32_t*>(array.data));
    case ElementType::int64:
      return visit(static_cast<std::int64_t*>(array.data));
    case ElementType::uint8:
      return visit(static_cast<std::uint8_t*>(array.data));
  }
}

}  // namespace

/// Parts are equal, so chunks of one size fit them all. One rank saves a small array, since each part takes room of its own.
std::int64_t part_begin_of(std::int64_t count, int rank, int ranks) {
  constexpr std::int64_t least = std::int64_t{1} << 18;
  const std::int64_t parts = std::clamp<std::int64_t>(count / least, 1, ranks);
  return count * (parts * rank / ranks) / parts;
}

Subject AddedSubject::outline(Purpose purpose) const {
  Subject outline{kind, name, {}, {}};
  FieldVisitor visitor(words(), [&](const FieldVisit& field, const void* data, const StateVisitor::Copy* copy) {
    if (outline.find(field.name) != nullptr) visitor.refuse_field(field.name, "it is visited twice");
    Dataset& own = outline.datasets.emplace_back();
    own.name = field.name;
    own.type = field.type;
    own.share = field.placement.share;
    own.chunked = copy != nullptr;
    own.pieces = {{field.count, field.placement.region}};
    const auto* const bytes = static_cast<const std::byte*>(data);
    if (!own.chunked) own.values.assign(bytes, bytes + field.bytes());
  });
  visit(visitor, purpose);
  outline.about = about();
  return outline;
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
