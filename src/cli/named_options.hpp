// named_options.hpp: options whose values are names: of enumerators, thresholds, compressors; and parameters of what they name.
#pragma once

#include <string>
#include <vector>

#include "base/fields.hpp"
#include "cli/command.hpp"
#include "compress/compressor.hpp"

namespace weir::cli {

/// Adds an option whose values are enumerators' names.
template <class Enum>
Option add_named(Command& command, const std::string& option, Enum& value, const std::string& help) {
  return command.named(
      option, {names_of<Enum>.begin(), names_of<Enum>.end()}, static_cast<std::size_t>(value),
      [&value](std::size_t chosen) { value = static_cast<Enum>(chosen); }, help);
}

/// Returns `first`, and the names of all rows of a registry in its order.
template <class Rows>
std::vector<std::string> names_in(const Rows& registry, std::vector<std::string> first = {}) {
  for (const auto& row : registry) {
    if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(row)>>)
      first.emplace_back(row->name);
    else
      first.emplace_back(row.name);
  }
  return first;
}

/// Adds --threshold and --threshold-parameters.
std::pair<Option, Option> add_threshold(Command& command, std::string& threshold, std::string& parameters);
/// Returns the help of --threshold-parameters: "parameters of the threshold: period of reuse (32), ...".
[[nodiscard]] std::string help_of_threshold_parameters();

/// As in AllreduceConfig: one compressor, `none`, or several joined by |, among which automatic choice chooses.
struct NamedCompressor {
  std::string names, parameters{};

  [[nodiscard]] bool several() const { return names.find('|') != std::string::npos; }
  [[nodiscard]] std::vector<compress::Compressor> made() const { return compress::make_compressors(names, parameters); }
};

/// Adds --compressor-parameters.
Option add_compressor_parameters(Command& command, std::string& parameters);
/// Adds --algorithm-parameters.
Option add_algorithm_parameters(Command& command, std::string& parameters);

[[nodiscard]] bool names_all(const std::vector<std::string>& items);

/// Combines the values of --compressor with parameters. `parameters` is one text that applies to all of them except `none`, or one
/// text for each, joined by |. Throws std::runtime_error naming a compressor that does not take them, or does not exist.
[[nodiscard]] std::vector<NamedCompressor> named_compressors(const std::vector<std::string>& items, const std::string& parameters);

/// Returns for example "qsgd levels=3": the name and the parameters that differ from defaults, or "none".
[[nodiscard]] std::string text_of(const compress::Compressor& compressor);

}  // namespace weir::cli
