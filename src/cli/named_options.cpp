#include "cli/named_options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/report.hpp"
#include "contribution/threshold.hpp"

namespace weir::cli {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t bar = text.find('|'); bar != std::string_view::npos; bar = text.find('|')) {
    parts.emplace_back(text.substr(0, bar));
    text.remove_prefix(bar + 1);
  }
  parts.emplace_back(text);
  return parts;
}

/// Returns one text for each name, or more if `parameters` has more.
std::vector<std::string> texts_of(const std::vector<std::string>& names, const std::string& parameters) {
  std::vector<std::string> texts(names.size());
  if (parameters.find('|') != std::string::npos) {
    texts = split(parameters);
    texts.resize(std::max(texts.size(), names.size()));
    return texts;
  }
  const bool only_none = std::all_of(names.begin(), names.end(), [](const std::string& name) { return name == "none"; });
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != "none" || only_none) texts[i] = parameters;
  }
  return texts;
}

/// Checks each compressor with its own text, so that none is dropped.
void check(const std::vector<std::string>& names, const std::vector<std::string>& texts, const std::string& given) {
  for (const std::string& name : names) {
    if (name != "none") static_cast<void>(compress::find_compressor(name));
  }
  try {
    static_cast<void>(compress::make_compressors(joined(names, "|"), joined(texts, "|")));
  } catch (const Error& error) {
    if (names.size() == 1 || given.find('|') != std::string::npos) throw;
    fail(WEIR_ERR_ARGUMENT,
         "{}; where not all compressors take the same, give each its own, joined by | in the order of --compressor", error.what());
  }
}

}  // namespace

std::string help_of_threshold_parameters() {
  std::string text;
  for (const ThresholdRow* row : threshold_registry()) {
    for (const ParameterInfo& info : row->parameters)
      text += fmt::format("{}{} of {} (default {})", text.empty() ? "" : ", ", info.name, row->name, text_of(info, info.value));
  }
  return "parameters of the selection method, such as period=8: " + text;
}

std::pair<Option, Option> add_threshold(Command& command, std::string& threshold, std::string& parameters) {
  return {command.option("--threshold", threshold, "selection method").one_of(names_in(threshold_registry())),
          command.option("--threshold-parameters", parameters, help_of_threshold_parameters())};
}

Option add_compressor_parameters(Command& command, std::string& parameters) {
  return command.option(
      "--compressor-parameters", parameters,
      "parameters of the compressor, such as format=int4,bucket=128; for several compressors, one list that all of them take, "
      "or one list for each, joined by |");
}

Option add_algorithm_parameters(Command& command, std::string& parameters) {
  return command.option("--algorithm-parameters", parameters,
                        "parameters of the algorithms, such as window=8,schedule=direct; each algorithm takes those that it has");
}

bool names_all(const std::vector<std::string>& items) { return items == std::vector<std::string>{"all"}; }

std::vector<NamedCompressor> named_compressors(const std::vector<std::string>& items, const std::string& parameters) {
  if (items.empty() && !parameters.empty())
    fail(WEIR_ERR_ARGUMENT, "--compressor-parameters is '{}': say with --compressor of which compressor", parameters);
  std::vector<std::string> names;
  for (const std::string& item : items) {
    for (std::string& name : split(item)) names.push_back(std::move(name));
  }
  const std::vector<std::string> texts = texts_of(names, parameters);
  check(names, texts, parameters);
  std::vector<NamedCompressor> list;
  std::span<const std::string> left(texts);
  for (const std::string& item : items) {
    const std::size_t mine = split(item).size();
    list.push_back({item, parameters.empty() ? "" : joined(left.first(mine), "|")});
    left = left.subspan(mine);
  }
  return list;
}

std::string text_of(const compress::Compressor& compressor) {
  if (!compressor) return "none";
  const std::string changes = compressor.parameters.changes();
  return fmt::format("{}{}{}", compressor.row->name, changes.empty() ? "" : " ", changes);
}

}  // namespace weir::cli
