// timeouts.hpp: short timeouts for what a test does. Communicators and plans are made under the usual one: where others fill the
// machine, that may take longer.
#pragma once

#include <weir/weir.hpp>

#include "communicator/communicator.hpp"

namespace weir::test {

inline void set_timeout(Communicator& comm, double seconds) {
  const auto inside = comm.state()->enter();
  comm.state()->settings.timeout_seconds = seconds;
  comm.state()->engine.set_timeout(seconds);
}

}  // namespace weir::test
