#include "cli/json.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace weir::cli {

using nlohmann::ordered_json;

JsonValue::JsonValue() : value_(std::make_unique<ordered_json>()) {}
JsonValue::JsonValue(std::initializer_list<Member> members) : value_(std::make_unique<ordered_json>(ordered_json::object())) {
  for (const Member& member : members) add(member.name, member.value);
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

void JsonValue::push_back(const JsonValue& value) { value_->push_back(*value.value_); }
void JsonValue::add(std::string_view name, const JsonValue& value) { (*value_)[std::string(name)] = *value.value_; }
std::string JsonValue::text() const { return value_->dump(1, ' ', false, ordered_json::error_handler_t::replace); }

void write_json(const JsonValue& value, const std::string& file) {
  std::ofstream out(file);
  out << value.text() << '\n' << std::flush;
  if (!out) throw std::runtime_error(fmt::format("cannot write the JSON file '{}'", file));
}

}  // namespace weir::cli
