// named_compressors.hpp: what --compressor, --compressor-parameters and --algorithm-parameters of a command name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command.hpp"
#include "compress/compressor.hpp"

namespace weir::cli {

/// As AllreduceConfig has them: one compressor or none, or several joined by |, of which automatic choice takes one.
struct NamedCompressor {
  std::string names, parameters{};

  [[nodiscard]] bool several() const { return names.find('|') != std::string::npos; }
  [[nodiscard]] std::vector<compress::Compressor> made() const { return compress::make_compressors(names, parameters); }
};

/// --compressor-parameters.
Option add_compressor_parameters(Command& command, std::string& parameters);
/// --algorithm-parameters.
Option add_algorithm_parameters(Command& command, std::string& parameters);

[[nodiscard]] bool names_all(const std::vector<std::string>& items);
/// Returns the names of all compressors in the registry, in its order.
[[nodiscard]] std::vector<std::string> all_compressors();

/// `items`: values of --compressor. `parameters`: one text, which all of them but none must take, or a text for each, joined by |.
/// Throws std::runtime_error saying which compressor does not take them, or does not exist.
[[nodiscard]] std::vector<NamedCompressor> named_compressors(const std::vector<std::string>& items, const std::string& parameters);

/// "qsgd levels=3": those of its parameters that are not its defaults; or "none".
[[nodiscard]] std::string text_of(const compress::Compressor& compressor);

}  // namespace weir::cli
