#include "base/state.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace weir {
namespace {

struct TypeRow {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array types = {TypeRow{"bool", 1},    TypeRow{"int32", 4},  TypeRow{"int64", 8},
                              TypeRow{"uint32", 4},  TypeRow{"uint64", 8}, TypeRow{"float32", 4},
                              TypeRow{"float64", 8}, TypeRow{"text", 1},   TypeRow{"uint8", 1}};

const TypeRow& row_of(StateType type) { return types[static_cast<std::size_t>(type)]; }

void copy_bytes(void* to, const void* from, std::int64_t bytes, const StateVisitor::Copy* copy) {
  if (bytes == 0) return;
  if (copy != nullptr)
    (*copy)(to, from, bytes);
  else
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

constexpr std::string_view advice = ": make it as in the state, or begin without the state";

/// Returns how two texts differ: their first different lines, and of a long line the part around the difference.
std::string difference(std::string_view saved, std::string_view here) {
  constexpr std::size_t longest = 160, before = 20;
  std::size_t at =
      static_cast<std::size_t>(std::mismatch(saved.begin(), saved.end(), here.begin(), here.end()).first - saved.begin());
  const auto line_of = [&](std::string_view text) -> std::string {
    const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
    if (begin >= text.size()) return "nothing";
    const std::string_view line = text.substr(begin, text.find('\n', at) - begin);
    if (line.size() <= longest) return fmt::format("'{}'", line);
    const std::size_t from = std::max(at - begin, before) - before;
    return fmt::format("'{}{}{}'", from > 0 ? "..." : "", line.substr(from, longest), from + longest < line.size() ? "..." : "");
  };
  const auto line = std::count(saved.begin(), saved.begin() + static_cast<std::ptrdiff_t>(at), '\n');
  const bool lines = saved.find('\n') != std::string_view::npos || here.find('\n') != std::string_view::npos;
  return fmt::format("{} is {} in the state and {} here", lines ? fmt::format("line {}", line + 1) : "it", line_of(saved),
                     line_of(here));
}

}  // namespace

std::string_view state_type_name(StateType type) { return row_of(type).name; }
std::int64_t state_type_bytes(StateType type) { return row_of(type).bytes; }

const StateField* SavedState::find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const StateField& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

std::int64_t FieldVisit::bytes() const { return count * state_type_bytes(type); }

void StateVisitor::fixed(std::string_view name, std::int64_t here, Share share, std::span<const std::string_view> names) {
  std::int64_t saved = here;
  value(name, saved, share);
  const auto words = [&](std::int64_t number) {
    const auto at = static_cast<std::uint64_t>(number);
    return at < names.size() ? fmt::format("'{}'", names[at]) : fmt::format("{}", number);
  };
  if (saved != here) refuse(name, fmt::format("it is {} in the state and {} here{}", words(saved), words(here), advice));
}

void StateVisitor::text(std::string_view name, std::string_view here, Share share) {
  text_field({path_ + std::string(name), StateType::text, static_cast<std::int64_t>(here.size()), {share, placement_.region}},
             here);
}

void StateVisitor::check(bool ok, std::string_view name, std::string_view right) const {
  if (!ok) refuse(name, fmt::format("it must be {}", right));
}

void StateVisitor::refuse(std::string_view name, std::string_view why) const {
  refuse_field(fmt::format("{}{}", path_, name), why);
}

void StateVisitor::refuse_field(std::string_view name, std::string_view why) const {
  fail(WEIR_ERR_ARGUMENT, "the state does not fit {}: field '{}': {}", subject_, name, why);
}

// Saving.

void StateSaver::field(FieldVisit visit, void* data, const Copy* copy) {
  if (!names_.insert(visit.name).second) refuse_field(visit.name, "it is visited twice");
  const std::int64_t bytes = visit.bytes();
  StateField& field =
      saved_.fields.emplace_back(StateField{std::move(visit.name), visit.type, visit.count, Buffer<std::byte>(bytes)});
  copy_bytes(field.bytes.data(), data, bytes, copy);
}

void StateSaver::text_field(FieldVisit visit, std::string_view here) {
  std::string copy(here);
  field(std::move(visit), copy.data(), nullptr);
}

// Restoring.

void StateRestorer::check_all_visited() const {
  const auto unknown = std::find(visited_.begin(), visited_.end(), false);
  if (unknown != visited_.end())
    fail(WEIR_ERR_ARGUMENT, "the state has a field '{}' that {} does not know: it was saved from another configuration",
         saved_.fields[static_cast<std::size_t>(unknown - visited_.begin())].name, subject());
}

void StateRestorer::write() {
  check_all_visited();
  writes_ = true;
}

const StateField& StateRestorer::find(const std::string& name, StateType type) {
  const auto place = places_.find(name);
  if (place == places_.end())
    fail(WEIR_ERR_ARGUMENT,
         "the state has no field '{}', which {} needs: it is incomplete, or was saved from another configuration", name, subject());
  visited_[place->second] = true;
  const StateField* const found = &saved_.fields[place->second];
  if (found->type != type)
    refuse_field(name, fmt::format("it holds {} in the state and {} here", state_type_name(found->type), state_type_name(type)));
  if (found->bytes.size() != found->count * state_type_bytes(type))
    refuse_field(name, fmt::format("it is truncated: {} elements of {} take {} bytes, and it has {}", found->count,
                                   state_type_name(type), found->count * state_type_bytes(type), found->bytes.size()));
  return *found;
}

void StateRestorer::field(FieldVisit visit, void* data, const Copy* copy) {
  const StateField& found = find(visit.name, visit.type);
  if (found.count != visit.count)
    refuse_field(visit.name, fmt::format("it has {} elements in the state and {} here", found.count, visit.count));
  const std::byte* const bytes = found.bytes.data();
  if (visit.type == StateType::boolean &&
      std::any_of(bytes, bytes + found.bytes.size(), [](std::byte b) { return b > std::byte{1}; }))
    refuse_field(visit.name, "it holds bytes that are neither false (0) nor true (1)");
  if (writes_ || copy == nullptr) copy_bytes(data, bytes, found.bytes.size(), copy);
}

void StateRestorer::text_field(FieldVisit visit, std::string_view here) {
  const StateField& found = find(visit.name, StateType::text);
  const std::string_view saved(reinterpret_cast<const char*>(found.bytes.data()), static_cast<std::size_t>(found.count));
  if (saved != here) refuse_field(visit.name, difference(saved, here) + std::string(advice));
}

}  // namespace weir
