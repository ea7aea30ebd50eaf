// json.hpp: reads and writes JSON. Only json.cpp includes nlohmann-json, which takes seconds to compile.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {

/// Thrown for text that is not JSON, or a value of another type than was asked for.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Thrown for text that is nested too deeply.
class JsonTooDeep : public JsonError {
 public:
  JsonTooDeep() : JsonError("JSON that is nested too deep") {}
};

struct JsonTree;  // of nlohmann-json: members keep their order

/// Refers to a value, or a part of one, which must outlive it. Functions that return anything but a view or a bool throw JsonError.
class JsonView {
 public:
  explicit JsonView(const JsonTree& value) : value_(&value) {}

  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_number() const;
  [[nodiscard]] bool is_integer() const;
  /// Returns whether it is a number with a point or an exponent.
  [[nodiscard]] bool is_float() const;
  /// Throws JsonError if there is no such member or element.
  [[nodiscard]] JsonView at(const char* name) const;
  [[nodiscard]] JsonView at(int index) const;
  [[nodiscard]] std::optional<JsonView> find(const char* name) const;
  [[nodiscard]] std::vector<JsonView> elements() const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonView>> members() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::string string() const;
  void to(bool& value) const { value = boolean(); }
  void to(int& value) const { value = static_cast<int>(integer()); }
  void to(std::int64_t& value) const { value = integer(); }
  void to(std::uint64_t& value) const;
  void to(double& value) const { value = number(); }
  void to(std::string& value) const { value = string(); }
  void to(std::vector<std::int64_t>& values) const;
  /// Returns one line, or with `indent` several, each level indented by that many more blanks. Throws JsonError if it is not UTF-8.
  [[nodiscard]] std::string dump(int indent = -1) const;
  [[nodiscard]] bool operator==(const char* text) const;
  [[nodiscard]] bool operator==(const JsonView& other) const;

 private:
  const JsonTree* value_;
};

/// A value, made of any of the types below; {{"name", value}, ...} is an object, whose members keep their order.
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

  [[nodiscard]] static JsonValue array(std::initializer_list<JsonValue> elements = {});
  [[nodiscard]] static JsonValue object();
  /// Parses JSON. Throws JsonError.
  [[nodiscard]] static JsonValue parse(std::string_view text);
  /// Parses JSON. Throws JsonTooDeep as soon as more than `deepest` arrays and objects are nested.
  [[nodiscard]] static JsonValue parse(std::string_view text, int deepest);
  /// Parses JSON; returns no value for text that is not JSON.
  [[nodiscard]] static std::optional<JsonValue> parse_if_whole(std::string_view text);
  /// Appends to an array.
  void push_back(JsonValue value);
  /// Sets a member of an object: in place of the member of that name, or at the end. Null becomes an object.
  void set(std::string_view name, JsonValue value);
  /// Does what dump() of a view does, but replaces what is not UTF-8.
  [[nodiscard]] std::string text(int indent = 1) const;
  [[nodiscard]] JsonView view() const { return JsonView(*value_); }

 private:
  struct Destroy {
    void operator()(JsonTree* value) const;
  };

  std::unique_ptr<JsonTree, Destroy> value_;
};

struct JsonValue::Member {
  const char* name;
  JsonValue value;
};

/// Writes its text and a newline. Throws std::runtime_error naming the file.
void write_json(const JsonValue& value, const std::string& file);

}  // namespace weir
