// commands.hpp: the subcommands of `weir`. Each add_* registers one. Its options live in closures.
#pragma once

#include "cli/command.hpp"

namespace weir::cli {

void add_info(Command& app);
void add_bench_select(Command& bench);
void add_bench_allreduce(Command& bench);
void add_bench_sum(Command& bench);
void add_bench_compress(Command& bench);
void add_bench_embedding(Command& bench);
void add_bench_fusion(Command& bench);
void add_bench_datacache(Command& bench);
void add_bench_checkpoint(Command& bench);
void add_calibrate(Command& app);
void add_predict(Command& app);
void add_selftest(Command& app);
void add_trace(Command& app);
void add_checkpoint(Command& app);
void add_cache(Command& app);
void add_cache_check(Command& cache);

}  // namespace weir::cli
