// slow_machine.hpp: a machine for costs that are computed by hand.
#pragma once

#include "model/machine.hpp"

namespace weir::test {

/// Returns a machine so slow that every term matters.
inline Machine slow_machine() {
  Machine machine;
  machine.links[static_cast<std::size_t>(Level::node)] = Link{0.1, 0, 1000, 1000, 4000};
  machine.links[static_cast<std::size_t>(Level::system)] = Link{1, 0.25, 100, 50, 100};
  machine.rates = {.add = 1600, .select = 1600, .cut = 320, .fill = 1600, .scatter = 80, .merge = 80, .encode = 80, .decode = 80};
  machine.mpi_allreduce_factor = 2;
  return machine;
}

}  // namespace weir::test
