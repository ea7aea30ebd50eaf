// commands.hpp: what the `weir` command can do. Each add_* registers one subcommand; run-time options live in the closures.
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <string>

namespace weir::cli {

/// An option whose values are names.
template <class Enum>
void add_named(CLI::App* command, const std::string& option, Enum& value, const std::map<std::string, Enum>& names,
               const std::string& help) {
  std::string list;
  for (const auto& [name, unused] : names) list += (list.empty() ? "" : ", ") + name;
  command->add_option(option, value, help + ": " + list)->transform(CLI::CheckedTransformer(names));
}

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
