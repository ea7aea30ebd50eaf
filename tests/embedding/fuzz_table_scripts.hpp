// fuzz_table_scripts.hpp: in which order each rank makes the calls of a case, and for which it waits when.
#pragma once

#include "embedding/fuzz_table_cases.hpp"
#include "support/dice.hpp"

namespace weir::test {

/// From the events of the case: its scripts, and the counts of its lookups and updates, which depend on what each rank has
/// prefetched before. Ranks order prefetches in their own ways, as long as no rank waits for ever.
void write_scripts(Dice& dice, TableCase& c);

}  // namespace weir::test
