// json.hpp: JSON that is written and read. nlohmann-json, which takes seconds to compile, is seen by json.cpp only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weir::cli {

/// Text that is no JSON, or a value that is not what was asked for.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Part of a value that must outlive it. All that returns something else than a view or a bool throws JsonError.
class JsonView {
 public:
  explicit JsonView(const nlohmann::ordered_json& value) : value_(&value) {}

  [[nodiscard]] bool is_object() const;
  /// Throws JsonError unless it is there.
  [[nodiscard]] JsonView at(const char* name) const;
  [[nodiscard]] JsonView at(int index) const;
  [[nodiscard]] std::optional<JsonView> find(const char* name) const;
  [[nodiscard]] std::vector<JsonView> elements() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::string string() const;
  void to(bool& value) const { value = boolean(); }
  void to(int& value) const { value = static_cast<int>(integer()); }
  void to(std::int64_t& value) const { value = integer(); }
  void to(double& value) const { value = number(); }
  void to(std::string& value) const { value = string(); }
  /// On one line.
  [[nodiscard]] std::string dump() const;
  [[nodiscard]] bool operator==(const char* text) const;
  [[nodiscard]] bool operator==(const JsonView& other) const;

 private:
  const nlohmann::ordered_json* value_;
};

/// A value, from whatever it is made of; {{"name", value}, ...} is an object, whose members keep their order.
class JsonValue {
 public:
  struct Member;

  JsonValue();  ///< null
  JsonValue(std::initializer_list<Member> members);
  // NOLINTBEGIN(google-explicit-constructor): rows are written as lists of names and values
  JsonValue(bool value);
  JsonValue(int value);
  JsonValue(std::int64_t value);
  JsonValue(std::uint64_t value);
  JsonValue(double value);
  JsonValue(const char* value);
  JsonValue(std::string_view value);
  JsonValue(const std::string& value);
  JsonValue(const std::vector<std::int64_t>& values);
  // NOLINTEND(google-explicit-constructor)
  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept;
  JsonValue& operator=(JsonValue other) noexcept;
  ~JsonValue();

  [[nodiscard]] static JsonValue array();
  [[nodiscard]] static JsonValue object();
  /// Throws JsonError.
  [[nodiscard]] static JsonValue parse(std::string_view text);
  /// None for what is no JSON.
  [[nodiscard]] static std::optional<JsonValue> parse_if_whole(std::string_view text);
  /// To an array.
  void push_back(JsonValue value);
  /// In an object: at its end, or in place of the member of that name.
  void set(std::string_view name, JsonValue value);
  /// In lines, each level further in by a blank. What is not UTF-8 is replaced.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] JsonView view() const { return JsonView(*value_); }

 private:
  std::unique_ptr<nlohmann::ordered_json> value_;
};

struct JsonValue::Member {
  const char* name;
  JsonValue value;
};

/// Writes its text and a newline. Throws std::runtime_error naming the file.
void write_json(const JsonValue& value, const std::string& file);

}  // namespace weir::cli
