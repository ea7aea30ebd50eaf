#include "base/json.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace weir {

using nlohmann::ordered_json;

namespace {

const ordered_json& tree(const JsonTree* value) { return *reinterpret_cast<const ordered_json*>(value); }
ordered_json& tree(JsonTree* value) { return *reinterpret_cast<ordered_json*>(value); }
template <class Tree>
ordered_json& tree(const Tree& owner) {
  return tree(owner.get());
}
JsonView view_of(const ordered_json& value) { return JsonView(reinterpret_cast<const JsonTree&>(value)); }
template <class... Args>
JsonTree* made(Args&&... args) {
  return reinterpret_cast<JsonTree*>(new ordered_json(std::forward<Args>(args)...));
}

/// Returns what `get` returns; turns the library's errors into JsonError.
template <class Get>
auto checked(Get get) -> decltype(get()) {
  try {
    return get();
  } catch (const ordered_json::exception& error) {
    throw JsonError(error.what());
  }
}

}  // namespace

bool JsonView::is_object() const { return tree(value_).is_object(); }
bool JsonView::is_string() const { return tree(value_).is_string(); }
bool JsonView::is_number() const { return tree(value_).is_number(); }
bool JsonView::is_integer() const { return tree(value_).is_number_integer(); }
bool JsonView::is_float() const { return tree(value_).is_number_float(); }
JsonView JsonView::at(const char* name) const {
  return checked([&] { return view_of(tree(value_).at(name)); });
}
JsonView JsonView::at(int index) const {
  return checked([&] { return view_of(tree(value_).at(static_cast<std::size_t>(index))); });
}
std::optional<JsonView> JsonView::find(const char* name) const {
  const auto found = tree(value_).find(name);
  return found == tree(value_).end() ? std::nullopt : std::optional(view_of(*found));
}
std::vector<JsonView> JsonView::elements() const {
  std::vector<JsonView> views;
  views.reserve(tree(value_).size());
  for (const ordered_json& element : tree(value_)) views.push_back(view_of(element));
  return views;
}
std::vector<std::pair<std::string, JsonView>> JsonView::members() const {
  std::vector<std::pair<std::string, JsonView>> views;
  views.reserve(tree(value_).size());
  for (const auto& [name, value] : tree(value_).items()) views.emplace_back(name, view_of(value));
  return views;
}
bool JsonView::boolean() const {
  return checked([&] { return tree(value_).get<bool>(); });
}
std::int64_t JsonView::integer() const {
  return checked([&] { return tree(value_).get<std::int64_t>(); });
}
double JsonView::number() const {
  return checked([&] { return tree(value_).get<double>(); });
}
std::string JsonView::string() const {
  return checked([&] { return tree(value_).get<std::string>(); });
}
void JsonView::to(std::uint64_t& value) const {
  checked([&] { tree(value_).get_to(value); });
}
void JsonView::to(std::vector<std::int64_t>& values) const {
  checked([&] { tree(value_).get_to(values); });
}
std::string JsonView::dump(int indent) const {
  return checked([&] { return tree(value_).dump(indent); });
}
bool JsonView::operator==(const char* text) const {
  return tree(value_).is_string() && tree(value_).get_ref<const std::string&>() == text;
}
bool JsonView::operator==(const JsonView& other) const { return tree(value_) == tree(other.value_); }

void JsonValue::Destroy::operator()(JsonTree* value) const { delete &tree(value); }

JsonValue::JsonValue() : value_(made()) {}
JsonValue::JsonValue(std::initializer_list<Member> members) : value_(made(ordered_json::object())) {
  for (const Member& member : members) set(member.name, member.value);
}
JsonValue::JsonValue(bool value) : value_(made(value)) {}
JsonValue::JsonValue(int value) : value_(made(value)) {}
JsonValue::JsonValue(std::int64_t value) : value_(made(value)) {}
JsonValue::JsonValue(std::uint64_t value) : value_(made(value)) {}
JsonValue::JsonValue(double value) : value_(made(value)) {}
JsonValue::JsonValue(const char* value) : JsonValue(std::string(value)) {}
JsonValue::JsonValue(std::string_view value) : JsonValue(std::string(value)) {}
JsonValue::JsonValue(const std::string& value) : value_(made(value)) {}
JsonValue::JsonValue(const std::vector<std::int64_t>& values) : value_(made(values)) {}
JsonValue::JsonValue(const JsonValue& other) : value_(made(tree(other.value_))) {}
JsonValue::JsonValue(JsonValue&& other) noexcept = default;
JsonValue& JsonValue::operator=(JsonValue other) noexcept {
  value_.swap(other.value_);
  return *this;
}
JsonValue::~JsonValue() = default;

JsonValue JsonValue::array(std::initializer_list<JsonValue> elements) {
  JsonValue value;
  tree(value.value_) = ordered_json::array();
  for (const JsonValue& element : elements) value.push_back(element);
  return value;
}
JsonValue JsonValue::object() { return std::initializer_list<Member>{}; }
JsonValue JsonValue::parse(std::string_view text) {
  JsonValue value;
  tree(value.value_) = checked([&] { return ordered_json::parse(text); });
  return value;
}
JsonValue JsonValue::parse(std::string_view text, int deepest) {
  const auto limit_depth = [deepest](int depth, ordered_json::parse_event_t event, const ordered_json&) {
    const bool opens = event == ordered_json::parse_event_t::object_start || event == ordered_json::parse_event_t::array_start;
    if (opens && depth >= deepest) throw JsonTooDeep();
    return true;
  };
  JsonValue value;
  tree(value.value_) = checked([&] { return ordered_json::parse(text, limit_depth); });
  return value;
}
std::optional<JsonValue> JsonValue::parse_if_whole(std::string_view text) {
  JsonValue value;
  tree(value.value_) = ordered_json::parse(text, nullptr, false);
  return tree(value.value_).is_discarded() ? std::nullopt : std::optional(std::move(value));
}

void JsonValue::push_back(JsonValue value) { tree(value_).push_back(std::move(tree(value.value_))); }
void JsonValue::set(std::string_view name, JsonValue value) { tree(value_)[std::string(name)] = std::move(tree(value.value_)); }
std::string JsonValue::text(int indent) const {
  return tree(value_).dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

void write_json(const JsonValue& value, const std::string& file) {
  std::ofstream out(file);
  out << value.text() << '\n' << std::flush;
  if (!out) throw std::runtime_error(fmt::format("cannot write the JSON file '{}': {}", file, std::strerror(errno)));
}

}  // namespace weir
