// commands.hpp: what the `weir` command can do. Each add_* registers one subcommand; run-time options live in the closures.
#pragma once

#include <CLI/CLI.hpp>

namespace weir::cli {

void add_info(CLI::App& app);
void add_bench_select(CLI::App& bench);
void add_bench_allreduce(CLI::App& bench);
void add_bench_codec(CLI::App& bench);
void add_bench_overlap(CLI::App& bench);
void add_calibrate(CLI::App& app);
void add_predict(CLI::App& app);

}  // namespace weir::cli
