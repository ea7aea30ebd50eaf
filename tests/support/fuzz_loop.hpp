// fuzz_loop.hpp: the main of a seeded fuzzer: cases by number until the time is over, or one case by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace weir::test {

/// What is wrong with one case, or nothing. `seed` is the case's own and says all about it; `talk`: describe it on stdout.
using FuzzCase = std::function<std::string(std::uint64_t seed, bool talk)>;

/// Takes --seconds (of CPU; 0: for ever; divided by twice TEST_EVERY where that is above 1), --seed and --case (only that one). The
/// first failing case ends it; before anything else, a crash included, a line says which command repeats the case.
int fuzz_loop(int argc, char** argv, const FuzzCase& run_case);

}  // namespace weir::test
