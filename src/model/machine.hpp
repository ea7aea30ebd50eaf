// machine.hpp: what a machine can do, as numbers: what messages cost at each level, and how fast a rank computes. Cost functions
// turn them into predictions. calibrate() measures them; JSON files keep them; a built-in machine is the fallback.
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
  double overhead = 0;   ///< per message of a few bytes, if many are in flight
  double bandwidth = 0;  ///< of one pair, if one of them sends
  double exchange = 0;   ///< in each direction, if one pair sends to each other at once; often lower with TCP
  /// The bandwidth of everything that one node sends at once. Between nodes: all its ranks send to partners on one other node, and
  /// receive nothing. Inside a node: every rank sends to one other and receives from it.
  double shared = 0;

  friend bool operator==(const Link&, const Link&) = default;
};

/// How fast one rank computes while all others of its node do the same.
struct Rates {
  double add = 0;      ///< bytes/s of x in y += x
  double select = 0;   ///< elements/s of compensation and of selecting those that reach a threshold, 1 % of them
  double cut = 0;      ///< entries/s of choosing exactly k among slightly more than k entries
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
  std::array<std::optional<Link>, level_count> links;  ///< by Level; `self` has no link, at least one other level has
  Rates rates;
  double mpi_allreduce_factor = 1;  ///< time of the MPI library's allreduce relative to the formula of dense_ring

  /// Returns whether `level` itself was measured.
  [[nodiscard]] bool has(Level level) const noexcept { return links[static_cast<std::size_t>(level)].has_value(); }
  /// Returns the link of `level`. If it was not measured, returns that of the next outer level on its side of the node's boundary,
  /// which is at least as far; else of the next inner one on its side. If nothing on its side was measured: for a level inside the
  /// node, that of the nearest level between nodes; for one between nodes, that of the outermost level inside, which is far too
  /// cheap (see has()).
  [[nodiscard]] const Link& link(Level level) const;

  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Returns a machine with two sockets a node and 25 Gbit/s Ethernet between nodes, TCP: round figures for an unmeasured machine.
[[nodiscard]] const Machine& builtin_machine();

/// Returns the machine if that many ranks share a core: each computes slower by that factor, and a message waits for its receiver
/// to get the core.
[[nodiscard]] Machine with_shared_cores(const Machine& machine, int ranks_per_core);

/// Parses a machine. Throws Error(WEIR_ERR_ARGUMENT) naming `origin` (a file), the key, its value and what would be right, if
/// `text` is not JSON, is nested more than 8 deep, has another schema version, lacks a key or has an unknown one, or if a figure is
/// not from 1e-18 to 1e18; latency and overhead may be 0.
[[nodiscard]] Machine parse_machine(std::string_view text, std::string_view origin);
/// Returns JSON that parse_machine() reads back to the same numbers. Throws Error(WEIR_ERR_ARGUMENT) naming a number out of range.
[[nodiscard]] std::string format_machine(const Machine& machine);

/// Throws Error(WEIR_ERR_ARGUMENT) naming the file if it cannot be read or written; otherwise as the functions above.
[[nodiscard]] Machine read_machine(const std::string& file);
void write_machine(const Machine& machine, const std::string& file);

}  // namespace weir
