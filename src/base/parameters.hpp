// parameters.hpp: values by name, as in "levels=16,bucket=512": what an algorithm or a compressor takes besides the configuration.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir {

struct ParameterInfo {
  std::string_view name;
  double value = 0;  ///< the default
  double least = 0, most = 0;
  std::string_view doc;
  std::span<const std::string_view> words{};  ///< if not empty, the values are words, and the number is the index of one
  bool whole = true;                          ///< whole numbers only
};

/// Returns a value as it is written: its word, or the number.
[[nodiscard]] std::string text_of(const ParameterInfo& parameter, double value);

/// The owner of parameters, for messages.
struct ParameterOwner {
  std::string_view field;  ///< of the configuration: "compressor_parameters"
  std::string_view name;   ///< "qsgd"
};

/// The values of all parameters of one owner, in the order of `known`.
class Parameters {
 public:
  Parameters() = default;
  /// Parses "levels=16,bucket=512". A parameter that is not named has its default. Throws Error(WEIR_ERR_ARGUMENT) saying what is
  /// wrong and what would be right.
  Parameters(const ParameterOwner& owner, std::span<const ParameterInfo> known, std::string_view text);

  /// Returns the values of `known` alone. These parameters must have all of them.
  [[nodiscard]] Parameters only(std::span<const ParameterInfo> known) const;

  [[nodiscard]] bool empty() const { return values_.empty(); }
  /// Returns the value of a parameter that the owner has.
  [[nodiscard]] double operator[](std::string_view name) const;
  [[nodiscard]] std::int64_t whole(std::string_view name) const { return static_cast<std::int64_t>((*this)[name]); }
  /// Returns all of them: "levels=16,bucket=512".
  [[nodiscard]] std::string text() const;
  /// Returns those that do not have their default.
  [[nodiscard]] std::string changes() const;
  /// Compares values of one owner.
  [[nodiscard]] bool operator==(const Parameters& other) const { return values_ == other.values_; }

 private:
  [[nodiscard]] std::string text_if(bool all) const;

  std::span<const ParameterInfo> known_;
  std::vector<double> values_;
};

}  // namespace weir
