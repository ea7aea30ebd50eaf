// commands.hpp: what the `weir` command can do. Each add_* registers one subcommand; run-time options live in the closures.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <span>
#include <string>

namespace weir::cli {

/// An option whose values are names. `help` says what it is about; the names and the default follow.
template <class Enum>
void add_named(CLI::App* command, const std::string& option, Enum& value, const std::map<std::string, Enum>& names,
               const std::string& help) {
  std::string list;
  for (const auto& [name, named] : names) list += (list.empty() ? "" : ", ") + name + (named == value ? " (the default)" : "");
  command
      ->add_option_function<std::string>(
          option, [&value, names](const std::string& name) { value = names.at(name); }, help + ": " + list)
      ->type_name("NAME")
      ->check([names, list](const std::string& name) { return names.contains(name) ? "" : "'" + name + "' is none of " + list; });
}

/// What is wrong with the command line's subcommands, "" if nothing: a word that is none.
[[nodiscard]] std::string unknown_subcommand(const CLI::App& app, std::span<const char* const> words);

void add_info(CLI::App& app);
void add_bench_select(CLI::App& bench);
void add_bench_allreduce(CLI::App& bench);
void add_bench_codec(CLI::App& bench);
void add_bench_overlap(CLI::App& bench);
void add_bench_rows(CLI::App& bench);
void add_bench_embedding(CLI::App& bench);
void add_calibrate(CLI::App& app);
void add_predict(CLI::App& app);
void add_trace(CLI::App& app);

}  // namespace weir::cli
