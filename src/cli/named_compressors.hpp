// named_compressors.hpp: the options --compressor, --compressor-parameters and --algorithm-parameters.
#pragma once

#include "cli/command.hpp"
#include "compress/compressor.hpp"

namespace weir::cli {

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
/// Returns the names of all compressors in the registry, in its order.
[[nodiscard]] std::vector<std::string> all_compressors();

/// Combines the values of --compressor with parameters. `parameters` is one text that applies to all of them except `none`, or one
/// text for each, joined by |. Throws std::runtime_error naming a compressor that does not take them, or does not exist.
[[nodiscard]] std::vector<NamedCompressor> named_compressors(const std::vector<std::string>& items, const std::string& parameters);

/// Returns for example "qsgd levels=3": the name and the parameters that differ from defaults, or "none".
[[nodiscard]] std::string text_of(const compress::Compressor& compressor);

}  // namespace weir::cli
