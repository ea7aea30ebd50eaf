// benchmarks.hpp: the subcommands of `weir-benchmarks`. Each add_* registers one. Its options live in closures.
#pragma once

#include "cli/command.hpp"

namespace weir::cli {

void add_capi(Command& benchmarks);
void add_codec(Command& benchmarks);
void add_rows(Command& benchmarks);
void add_threads(Command& benchmarks);
void add_overlap(Command& benchmarks);
void add_plans(Command& benchmarks);
void add_schedules(Command& benchmarks);
void add_adam(Command& benchmarks);
void add_pto(Command& benchmarks);
void add_start(Command& benchmarks);
void add_reproducible(Command& benchmarks);

}  // namespace weir::cli
