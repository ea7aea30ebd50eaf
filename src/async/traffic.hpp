// traffic.hpp: what a message carries: its bytes are counted by that where it is posted.
#pragma once

namespace weir {

/// Payload is values and indices of gradients; control is everything else. Indices of TrafficCount::kind_sent.
enum class Traffic { payload, control };

}  // namespace weir
