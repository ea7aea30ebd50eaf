// commands.hpp: what the `weir` command can do. Each add_* registers one subcommand; run-time options live in the closures.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>
#include <string>

#include "base/config_check.hpp"

namespace weir::cli {

/// An option whose value is the name of an enumerator.
template <class Enum>
void add_named(CLI::App* command, const std::string& option, Enum& value, const std::string& help) {
  auto names = names_of<Enum>;
  std::sort(names.begin(), names.end());
  std::string list;
  for (const std::string_view name : names)
    list += fmt::format("{}{}{}", list.empty() ? "" : ", ", name, name == name_of(value) ? " (the default)" : "");
  const auto number_of = [](std::string_view name) {
    return static_cast<std::size_t>(std::find(names_of<Enum>.begin(), names_of<Enum>.end(), name) - names_of<Enum>.begin());
  };
  command
      ->add_option_function<std::string>(
          option, [&value, number_of](const std::string& name) { value = static_cast<Enum>(number_of(name)); }, help + ": " + list)
      ->type_name("NAME")
      ->check([number_of, list](const std::string& name) {
        return number_of(name) < names_of<Enum>.size() ? "" : "'" + name + "' is none of " + list;
      });
}

/// What is wrong with the command line's subcommands, "" if nothing: a word that is none.
[[nodiscard]] std::string unknown_subcommand(const CLI::App& app, std::span<const char* const> words);

void add_info(CLI::App& app);
void add_bench_select(CLI::App& bench);
void add_bench_allreduce(CLI::App& bench);
void add_bench_codec(CLI::App& bench);
void add_bench_compress(CLI::App& bench);
void add_bench_overlap(CLI::App& bench);
void add_bench_plans(CLI::App& bench);
void add_bench_schedules(CLI::App& bench);
void add_bench_rows(CLI::App& bench);
void add_bench_embedding(CLI::App& bench);
void add_bench_fusion(CLI::App& bench);
void add_bench_pto(CLI::App& bench);
void add_bench_adam(CLI::App& bench);
void add_bench_datacache(CLI::App& bench);
void add_bench_capi(CLI::App& bench);
void add_bench_threads(CLI::App& bench);
void add_bench_checkpoint(CLI::App& bench);
void add_calibrate(CLI::App& app);
void add_predict(CLI::App& app);
void add_selftest(CLI::App& app);
void add_trace(CLI::App& app);
void add_checkpoint(CLI::App& app);
void add_cache(CLI::App& app);

}  // namespace weir::cli
