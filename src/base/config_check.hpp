// config_check.hpp: checks a configuration by the list of its fields, and names enumerators.
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"
#include "base/fields.hpp"

namespace weir {

/// Returns a value's name, as in "skip"; "unknown" for a number that the enumeration does not have.
template <class Enum>
[[nodiscard]] constexpr std::string_view name_of(Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < names_of<Enum>.size() ? names_of<Enum>[index] : "unknown";
}

/// Returns "error (0), skip (1) or propagate (2)".
template <class Enum>
[[nodiscard]] std::string choices_of() {
  std::string text;
  const std::size_t count = names_of<Enum>.size();
  for (std::size_t i = 0; i < count; ++i)
    text += fmt::format("{}{} ({})", i == 0 ? "" : i + 1 < count ? ", " : " or ", names_of<Enum>[i], i);
  return text;
}

/// Checks a factor by which the residual of `subject`, of `type`, is to be scaled. `subject` is for messages: "plan 'x'".
inline void check_scale(double factor, DataType type, std::string_view subject) {
  const auto in_range = [&]<class T>(T) {
    return factor >= std::numeric_limits<T>::min() && factor <= std::numeric_limits<T>::max();
  };
  require(type == DataType::float64 ? in_range(double{}) : in_range(float{}),
          "{}: its residual cannot be scaled by {}: the factor must be positive and finite as {}, for example 0.5", subject, factor,
          name_of(type));
}

/// Throws Error(WEIR_ERR_ARGUMENT) naming the first field that is outside its limits or its enumeration, and what would be right.
template <class Config>
void check_fields(const Config& config) {
  visit_fields(config, [](const FieldInfo& field, const auto& value) {
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_enum_v<Value>) {
      const auto number = static_cast<std::int64_t>(value);
      require(number >= 0 && number < static_cast<std::int64_t>(names_of<Value>.size()), "{} is {}: it must be {}", field.name,
              number, choices_of<Value>());
    } else if constexpr (std::is_arithmetic_v<Value>) {
      const auto number = static_cast<double>(value);
      if (number >= field.least && number <= field.most) return;
      if (std::is_floating_point_v<Value> && field.least == -std::numeric_limits<double>::infinity()) return;  // checked by hand
      const std::string range = field.most_text.empty() ? fmt::format("at least {}", field.least)
                                                        : fmt::format("between {} and {}", field.least, field.most_text);
      fail(WEIR_ERR_ARGUMENT, "{} is {}: it must be {}{}{}", field.name, value, range,
           field.example.empty() ? "" : ", for example ", field.example);
    }
  });
}

}  // namespace weir
