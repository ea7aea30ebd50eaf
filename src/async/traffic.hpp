// traffic.hpp: what a run has sent and received, counted where messages are posted.
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <weir/weir.hpp>

namespace weir {

/// Payload is values and indices of gradients; control is everything else.
enum class Traffic { payload, control };

struct TrafficCount {
  std::array<std::int64_t, level_count> bytes_sent{}, bytes_received{}, messages_sent{}, messages_received{};
  std::array<std::int64_t, 2> kind_sent{}, kind_received{};  ///< bytes by Traffic

  [[nodiscard]] std::int64_t sent() const { return std::accumulate(kind_sent.begin(), kind_sent.end(), std::int64_t{0}); }
  [[nodiscard]] std::int64_t received() const {
    return std::accumulate(kind_received.begin(), kind_received.end(), std::int64_t{0});
  }
};

}  // namespace weir
