// fuzz_loop.hpp: the main function of a seeded fuzzer: runs cases by number until the time is over, or one given case.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace weir::test {

/// Runs one case, determined by `seed` alone. Returns what is wrong, or an empty text. `talk`: describes the case on stdout.
using FuzzCase = std::function<std::string(std::uint64_t seed, bool talk)>;

/// Takes --seconds (of CPU; 0: no limit; divided by twice TEST_EVERY if that is above 1), --seed and --case (only that one). Stops
/// at the first failing case. On any failure, including a crash, prints the command that repeats the case.
int fuzz_loop(int argc, char** argv, const FuzzCase& run_case);

}  // namespace weir::test
