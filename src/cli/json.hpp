// json.hpp: JSON that is written. nlohmann-json, which takes seconds to compile, is seen by json.cpp and by what reads JSON only.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace weir::cli {

/// A value, from whatever it is made of; {{"name", value}, ...} is an object, whose members keep their order.
class JsonValue {
 public:
  struct Member;

  JsonValue();  ///< null
  JsonValue(std::initializer_list<Member> members);
  JsonValue(bool value);
  JsonValue(int value);
  JsonValue(std::int64_t value);
  JsonValue(std::uint64_t value);
  JsonValue(double value);
  JsonValue(const char* value);
  JsonValue(std::string_view value);
  JsonValue(const std::string& value);
  JsonValue(const std::vector<std::int64_t>& values);
  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept;
  JsonValue& operator=(JsonValue other) noexcept;
  ~JsonValue();

  [[nodiscard]] static JsonValue array();
  [[nodiscard]] static JsonValue object();
  /// To an array.
  void push_back(const JsonValue& value);
  /// To an object, at its end.
  void add(std::string_view name, const JsonValue& value);
  /// In lines, each level further in by a blank. What is not UTF-8 is replaced.
  [[nodiscard]] std::string text() const;

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
