#include "embedding/partition.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "collectives/allgatherv.hpp"

namespace weir {
namespace embedding {
namespace {

constexpr std::array registry = {
    TableExchange{"columns", "EmbRace: every rank holds some columns of all rows; vectors and gradients by AlltoAll",
                  TableSplit::columns, GradientPath::alltoallv},
    TableExchange{"rows", "every rank holds a block of rows; vectors and gradients by AlltoAll", TableSplit::rows,
                  GradientPath::alltoallv},
    TableExchange{"hashed_rows", "every rank holds rows from all over the table; vectors and gradients by AlltoAll",
                  TableSplit::hashed_rows, GradientPath::alltoallv},
    TableExchange{"server", "parameter servers: one rank of each node holds a share of the rows", TableSplit::node_rows,
                  GradientPath::alltoallv},
    TableExchange{"allgather", "Horovod's way: every rank holds the whole table; all ranks' rows of gradients by allgather",
                  TableSplit::none, GradientPath::allgatherv},
    TableExchange{"dense_allreduce", "every rank holds the whole table; its dense gradient by ring allreduce", TableSplit::none,
                  GradientPath::allreduce},
};

/// Returns x with a x = 1 modulo `modulus`, for a coprime to it (extended Euclid).
std::uint64_t inverse_of(std::uint64_t a, std::uint64_t modulus) {
  std::int64_t x = 1, next_x = 0;
  auto r = static_cast<std::int64_t>(a), next_r = static_cast<std::int64_t>(modulus);
  while (next_r != 0) {
    const std::int64_t quotient = r / next_r;
    x = std::exchange(next_x, x - quotient * next_x);
    r = std::exchange(next_r, r - quotient * next_r);
  }
  return static_cast<std::uint64_t>(x < 0 ? x + static_cast<std::int64_t>(modulus) : x);
}

/// Returns a factor whose multiples modulo `rows` lie far apart. Frequent rows, often neighbours in a vocabulary, then go to
/// different ranks (Knuth, TAOCP 3, section 6.4).
std::uint64_t golden_factor(std::uint64_t rows) {
  constexpr double golden = 0.6180339887498949;
  auto factor = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(golden * static_cast<double>(rows)));
  while (std::gcd(factor, rows) != 1) ++factor;
  return factor;
}

}  // namespace

std::span<const TableExchange> exchange_registry() { return registry; }

const TableExchange& find_exchange(std::string_view name) {
  const auto found = std::find_if(registry.begin(), registry.end(), [&](const TableExchange& row) { return row.name == name; });
  if (found != registry.end()) return *found;
  std::string known;
  for (const TableExchange& row : registry) known += (known.empty() ? "" : ", ") + std::string(row.name);
  fail(WEIR_ERR_ARGUMENT, "exchange is '{}': it must be one of {}", name, known);
}

Partition::Partition(TableSplit split, std::int64_t rows, std::int64_t width, const Topology& topology)
    : permutation_{static_cast<std::uint64_t>(rows)}, width_(width), parts_(static_cast<std::size_t>(topology.size())) {
  if (split == TableSplit::hashed_rows) {
    permutation_.factor = golden_factor(permutation_.rows);
    permutation_.inverse = inverse_of(permutation_.factor, permutation_.rows);
  }
  const auto share = [](std::int64_t total, int i, int of) {
    return static_cast<std::int64_t>(part_begin(static_cast<std::uint64_t>(total), i, of));
  };
  const auto servers = static_cast<int>(topology.leaders().size());
  for (int rank = 0, server = 0; rank < topology.size(); ++rank) {
    Part& part = parts_[static_cast<std::size_t>(rank)] = {0, rows, 0, width};
    if (split == TableSplit::columns) {
      part.first_column = share(width, rank, topology.size());
      part.columns = share(width, rank + 1, topology.size()) - part.first_column;
    } else if (split == TableSplit::rows || split == TableSplit::hashed_rows) {
      part.first_row = share(rows, rank, topology.size());
      part.rows = share(rows, rank + 1, topology.size()) - part.first_row;
    } else if (split == TableSplit::node_rows) {
      const bool serves = topology.leaders()[static_cast<std::size_t>(std::min(server, servers - 1))] == rank;
      part.first_row = share(rows, server, servers);
      part.rows = serves ? share(rows, server + 1, servers) - part.first_row : 0;
      server += serves;
    }
  }
}

}  // namespace embedding

std::vector<ExchangeInfo> exchanges() {
  std::vector<ExchangeInfo> list;
  for (const embedding::TableExchange& row : embedding::exchange_registry()) list.push_back({row.name, row.description});
  return list;
}

}  // namespace weir
