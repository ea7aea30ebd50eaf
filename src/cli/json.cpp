#include "cli/json.hpp"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace weir::cli {

using nlohmann::ordered_json;

namespace {

/// What `get` returns, with the library's errors as ours.
template <class Get>
auto checked(Get get) -> decltype(get()) {
  try {
    return get();
  } catch (const ordered_json::exception& error) {
    throw JsonError(error.what());
  }
}

}  // namespace

bool JsonView::is_object() const { return value_->is_object(); }
JsonView JsonView::at(const char* name) const {
  return checked([&] { return JsonView(value_->at(name)); });
}
JsonView JsonView::at(int index) const {
  return checked([&] { return JsonView(value_->at(static_cast<std::size_t>(index))); });
}
std::optional<JsonView> JsonView::find(const char* name) const {
  const auto found = value_->find(name);
  return found == value_->end() ? std::nullopt : std::optional(JsonView(*found));
}
std::vector<JsonView> JsonView::elements() const {
  std::vector<JsonView> views;
  for (const ordered_json& element : *value_) views.emplace_back(element);
  return views;
}
bool JsonView::boolean() const {
  return checked([&] { return value_->get<bool>(); });
}
std::int64_t JsonView::integer() const {
  return checked([&] { return value_->get<std::int64_t>(); });
}
double JsonView::number() const {
  return checked([&] { return value_->get<double>(); });
}
std::string JsonView::string() const {
  return checked([&] { return value_->get<std::string>(); });
}
std::string JsonView::dump() const {
  return checked([&] { return value_->dump(); });
}
bool JsonView::operator==(const char* text) const { return value_->is_string() && value_->get_ref<const std::string&>() == text; }
bool JsonView::operator==(const JsonView& other) const { return *value_ == *other.value_; }

JsonValue::JsonValue() : value_(std::make_unique<ordered_json>()) {}
JsonValue::JsonValue(std::initializer_list<Member> members) : value_(std::make_unique<ordered_json>(ordered_json::object())) {
  for (const Member& member : members) set(member.name, member.value);
}
JsonValue::JsonValue(bool value) : value_(std::make_unique<ordered_json>(value)) {}
JsonValue::JsonValue(int value) : value_(std::make_unique<ordered_json>(value)) {}
JsonValue::JsonValue(std::int64_t value) : value_(std::make_unique<ordered_json>(value)) {}
JsonValue::JsonValue(std::uint64_t value) : value_(std::make_unique<ordered_json>(value)) {}
JsonValue::JsonValue(double value) : value_(std::make_unique<ordered_json>(value)) {}
JsonValue::JsonValue(const char* value) : JsonValue(std::string(value)) {}
JsonValue::JsonValue(std::string_view value) : JsonValue(std::string(value)) {}
JsonValue::JsonValue(const std::string& value) : value_(std::make_unique<ordered_json>(value)) {}
JsonValue::JsonValue(const std::vector<std::int64_t>& values) : JsonValue(array()) {
  for (const std::int64_t value : values) value_->push_back(value);
}
JsonValue::JsonValue(const JsonValue& other) : value_(std::make_unique<ordered_json>(*other.value_)) {}
JsonValue::JsonValue(JsonValue&& other) noexcept = default;
JsonValue& JsonValue::operator=(JsonValue other) noexcept {
  value_.swap(other.value_);
  return *this;
}
JsonValue::~JsonValue() = default;

JsonValue JsonValue::array() {
  JsonValue value;
  *value.value_ = ordered_json::array();
  return value;
}
JsonValue JsonValue::object() { return std::initializer_list<Member>{}; }
JsonValue JsonValue::parse(std::string_view text) {
  JsonValue value;
  *value.value_ = checked([&] { return ordered_json::parse(text); });
  return value;
}
std::optional<JsonValue> JsonValue::parse_if_whole(std::string_view text) {
  JsonValue value;
  *value.value_ = ordered_json::parse(text, nullptr, false);
  return value.value_->is_discarded() ? std::nullopt : std::optional(std::move(value));
}

void JsonValue::push_back(JsonValue value) { value_->push_back(std::move(*value.value_)); }
void JsonValue::set(std::string_view name, JsonValue value) { (*value_)[std::string(name)] = std::move(*value.value_); }
std::string JsonValue::text() const { return value_->dump(1, ' ', false, ordered_json::error_handler_t::replace); }

void write_json(const JsonValue& value, const std::string& file) {
  std::ofstream out(file);
  out << value.text() << '\n' << std::flush;
  if (!out) throw std::runtime_error(fmt::format("cannot write the JSON file '{}'", file));
}

}  // namespace weir::cli
