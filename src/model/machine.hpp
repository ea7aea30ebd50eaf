// machine.hpp: what a machine can do, as numbers: what messages cost at each level, and how fast a rank computes. Cost functions
// turn them into predictions. Measured by calibrate(), kept in JSON files, built in for want of better.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

namespace weir {

/// What messages cost between ranks whose nearest common level is a given one. Bandwidths in bytes/s, times in seconds.
struct Link {
  double latency = 0;    ///< one way, for a message of a few bytes
  double overhead = 0;   ///< per message of a few bytes where many are in flight
  double bandwidth = 0;  ///< of one pair, one of them sending
  double exchange = 0;   ///< in each direction, of one pair sending to each other at once; TCP often loses here
  /// Bandwidth of everything that one node sends at once. Between nodes: all its ranks send to partners on one other node, nothing
  /// comes back. Inside a node: every rank sends to one other and receives from it.
  double shared = 0;

  friend bool operator==(const Link&, const Link&) = default;
};

/// How fast one rank computes while all others of its node do the same.
struct Rates {
  double add = 0;      ///< bytes/s of x in y += x
  double select = 0;   ///< elements/s of compensation and of selecting what reaches a threshold, 1 % of them
  double cut = 0;      ///< entries/s of choosing exactly k among little more than k entries
  double fill = 0;     ///< elements/s of making the dense result zero
  double scatter = 0;  ///< entries/s of settling the residual and writing the dense result
  double merge = 0;    ///< entries/s, both inputs counted, of merging two sparse vectors
  double encode = 0;   ///< entries/s into a message
  double decode = 0;   ///< entries/s out of a message

  friend bool operator==(const Rates&, const Rates&) = default;
};

/// Records where the numbers were measured.
struct Provenance {
  std::string host{}, date{}, mpi{}, weir{}, command{};
  int ranks = 0, nodes = 0;

  friend bool operator==(const Provenance&, const Provenance&) = default;
};

struct Machine {
  static constexpr int schema = 1;

  Provenance provenance;
  std::array<std::optional<Link>, level_count> links;  ///< by Level; none for `self`; at least one is there
  Rates rates;
  double mpi_allreduce_factor = 1;  ///< time of the MPI library's allreduce relative to the formula of dense_ring

  /// Whether `level` itself was measured.
  [[nodiscard]] bool has(Level level) const noexcept { return links[static_cast<std::size_t>(level)].has_value(); }
  /// A level that was not measured costs what the next outer one on its side of the node's boundary does, which is at least as far,
  /// else the next inner one on its side. Where nothing on its side was measured: inside the node, what the nearest level between
  /// nodes costs; between nodes, what the outermost inside does, which is far too little: has() tells.
  [[nodiscard]] const Link& link(Level level) const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Two sockets a node and 25 Gbit/s Ethernet between nodes, TCP: round figures for a machine that nobody has measured.
[[nodiscard]] const Machine& builtin_machine();

/// The machine where as many ranks share a core: each computes as much slower, and a message waits for its receiver to have its
/// turn.
[[nodiscard]] Machine with_shared_cores(const Machine& machine, int ranks_per_core);

/// Throws Error(WEIR_ERR_ARGUMENT) naming `origin` (a file), the key, its value and what would be right, when `text` is not JSON,
/// is nested more than 8 deep, has another schema version, lacks a key or has an unknown one, or when a figure is not from 1e-18 to
/// 1e18; latency and overhead may be 0.
[[nodiscard]] Machine parse_machine(std::string_view text, std::string_view origin);
/// What parse_machine reads back to the same numbers. Throws Error(WEIR_ERR_ARGUMENT) naming a number that is out of its range.
[[nodiscard]] std::string format_machine(const Machine& machine);

/// Throws Error(WEIR_ERR_ARGUMENT) naming the file when it cannot be read or written; otherwise as above.
[[nodiscard]] Machine read_machine(const std::string& file);
void write_machine(const Machine& machine, const std::string& file);

}  // namespace weir
