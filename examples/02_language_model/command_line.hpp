// command_line.hpp: the options of the program.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "scheme.hpp"
#include "training.hpp"

namespace language_model {

struct CommandLine {
  Options training;
  std::vector<std::string> schemes = {"all"};
  std::filesystem::path text = "/usr/share/dictd/gcide.dict.dz";
  std::filesystem::path output = ".";
  std::string progress = "auto";
  double require_perplexity = 0;
  bool summarise = false;
};

/// Adds the options to `app`. `line` must outlive `app`.
void define_options(CLI::App& app, CommandLine& line);

/// Returns the schemes named; "all" means all. Throws std::runtime_error for an unknown name.
[[nodiscard]] std::vector<Scheme> chosen_schemes(const CommandLine& line);

}  // namespace language_model
