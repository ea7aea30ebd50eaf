// traffic.hpp: what a message carries. The code that posts a message names it, and its bytes are counted under that.
#pragma once

namespace weir {

/// Payload is values and indices of gradients; control is everything else. The values index TrafficCount::kind_sent.
enum class Traffic { payload, control };

}  // namespace weir
