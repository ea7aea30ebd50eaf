// timeouts.hpp: short timeouts for the calls of a test. Communicators and plans are made under the default timeout, because that
// may take longer on a busy machine.
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
