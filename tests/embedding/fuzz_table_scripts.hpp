// fuzz_table_scripts.hpp: chooses the order in which each rank makes the calls of a case, and when it waits for which.
#pragma once

#include "embedding/fuzz_table_cases.hpp"
#include "support/dice.hpp"

namespace weir::test {

/// Makes, from the events of the case, its scripts and the counts of its lookups and updates, which depend on the earlier
/// prefetches of each rank. Ranks order prefetches in their own ways, as long as no rank waits for ever.
void write_scripts(Dice& dice, TableCase& c);

}  // namespace weir::test
