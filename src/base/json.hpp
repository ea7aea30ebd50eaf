// json.hpp: JSON that is written and read. nlohmann-json, which takes seconds to compile, is seen by json.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weir {

/// Text that is no JSON, or a value that is not what was asked for.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Text that is nested deeper than it may be.
class JsonTooDeep : public JsonError {
 public:
  JsonTooDeep() : JsonError("JSON that is nested too deep") {}
};

struct JsonTree;  // of nlohmann-json: members keep their order

/// Part of a value that must outlive it. All that returns something else than a view or a bool throws JsonError.
class JsonView {
 public:
  explicit JsonView(const JsonTree& value) : value_(&value) {}

  [[nodiscard]] bool is_object() const;
  [[nodiscard]] bool is_string() const;
  [[nodiscard]] bool is_number() const;
  [[nodiscard]] bool is_integer() const;
  /// A number with a point or an exponent.
  [[nodiscard]] bool is_float() const;
  /// Throws JsonError unless it is there.
  [[nodiscard]] JsonView at(const char* name) const;
  [[nodiscard]] JsonView at(int index) const;
  [[nodiscard]] std::optional<JsonView> find(const char* name) const;
  [[nodiscard]] std::vector<JsonView> elements() const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonView>> members() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer() const;
  [[nodiscard]] double number() const;
  [[nodiscard]] std::string string() const;
  /// What JsonValue::bytes() has made.
  [[nodiscard]] std::span<const std::byte> bytes() const;
  void to(bool& value) const { value = boolean(); }
  void to(int& value) const { value = static_cast<int>(integer()); }
  void to(std::int64_t& value) const { value = integer(); }
  void to(std::uint64_t& value) const;
  void to(double& value) const { value = number(); }
  void to(std::string& value) const { value = string(); }
  void to(std::vector<std::int64_t>& values) const;
  /// Writes one line, or with `indent` lines, each level that many blanks further in. Throws JsonError for what is not UTF-8.
  [[nodiscard]] std::string dump(int indent = -1) const;
  [[nodiscard]] bool operator==(const char* text) const;
  [[nodiscard]] bool operator==(const JsonView& other) const;

 private:
  const JsonTree* value_;
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

  [[nodiscard]] static JsonValue array(std::initializer_list<JsonValue> elements = {});
  [[nodiscard]] static JsonValue object();
  /// CBOR has such values, JSON has not.
  [[nodiscard]] static JsonValue bytes(std::span<const std::byte> value);
  /// Throws JsonError.
  [[nodiscard]] static JsonValue parse(std::string_view text);
  /// Throws JsonTooDeep as soon as more than `deepest` arrays and objects are in each other.
  [[nodiscard]] static JsonValue parse(std::string_view text, int deepest);
  /// None for what is no JSON.
  [[nodiscard]] static std::optional<JsonValue> parse_if_whole(std::string_view text);
  /// Throws JsonError.
  [[nodiscard]] static JsonValue from_cbor(std::span<const std::uint8_t> cbor);
  /// To an array.
  void push_back(JsonValue value);
  /// In an object: at its end, or in place of the member of that name. Null becomes an object.
  void set(std::string_view name, JsonValue value);
  /// As dump() of a view, but that what is not UTF-8 is replaced.
  [[nodiscard]] std::string text(int indent = 1) const;
  [[nodiscard]] std::vector<std::uint8_t> cbor() const;
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
