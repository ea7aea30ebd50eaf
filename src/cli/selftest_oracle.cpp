#include "cli/selftest_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace weir::cli {
namespace {

/// Reduces in place.
template <class T>
void over_group(std::span<T> values, MPI_Datatype type, MPI_Op op, MPI_Comm group) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), type, op, group);
}

void send_entries(const std::map<std::uint32_t, float>& entries, int to, MPI_Comm group) {
  const std::vector<std::pair<std::uint32_t, float>> list(entries.begin(), entries.end());
  MPI_Send(list.data(), static_cast<int>(list.size() * sizeof list[0]), MPI_BYTE, to, 0, group);
}

std::map<std::uint32_t, float> receive_entries(int from, MPI_Comm group) {
  MPI_Status status;
  int bytes = 0;
  MPI_Probe(from, 0, group, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::vector<std::pair<std::uint32_t, float>> list(static_cast<std::size_t>(bytes) / sizeof(std::pair<std::uint32_t, float>));
  MPI_Recv(list.data(), bytes, MPI_BYTE, from, 0, group, MPI_STATUS_IGNORE);
  return {list.begin(), list.end()};
}

/// Moves all but the k largest of `entries` into `rest`.
void cut(std::map<std::uint32_t, float>& entries, std::int64_t k, std::map<std::uint32_t, float>& rest) {
  if (static_cast<std::int64_t>(entries.size()) <= k) return;
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  for (const auto& [index, value] : entries) {
    indices.push_back(index);
    values.push_back(value);
  }
  rest = std::exchange(entries, {});
  for (const std::uint32_t at : largest_entries(values, k)) entries.insert(rest.extract(indices[at]));
}

}  // namespace

std::vector<std::uint32_t> largest_entries(std::span<const float> values, std::int64_t k) {
  std::vector<std::uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0U);
  std::erase_if(order, [&](std::uint32_t i) { return values[i] == 0; });
  std::stable_sort(order.begin(), order.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return std::abs(values[a]) > std::abs(values[b]); });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::sort(order.begin(), order.end());
  return order;
}

AllreduceOracle::AllreduceOracle(const AllreduceRow& row, const Topology& topology, std::int64_t count)
    : row_(row),
      shards_(topology, count),
      sharded_(row.sharded && topology.largest_node() > 1),
      delivered_(static_cast<std::size_t>(count)) {
  const int mine = shards_.mine();
  if (row.sparse() && (!sharded_ || mine >= 0)) residual_.resize(static_cast<std::size_t>(sharded_ ? shards_.size(mine) : count));
  MPI_Comm_split(MPI_COMM_WORLD, topology.node_of(topology.rank()), topology.rank(), &node_);
  MPI_Comm_split(MPI_COMM_WORLD, sharded_ ? (mine >= 0 ? mine : MPI_UNDEFINED) : 0, topology.rank(), &group_);
  if (group_ == MPI_COMM_NULL || !row.by_switch || (!sharded_ && topology.largest_node() > 1)) return;
  switches_ = find_switch_groups(topology);
  if (!switches_) return;
  MPI_Comm_split(group_, switches_->members()[0], topology.rank(), &switch_members_);
  MPI_Comm_split(group_, switches_->mine() >= 0 ? switches_->mine() : MPI_UNDEFINED, topology.rank(), &counterparts_);
}

AllreduceOracle::~AllreduceOracle() {
  for (MPI_Comm* comm : {&node_, &group_, &switch_members_, &counterparts_}) {
    if (*comm != MPI_COMM_NULL) MPI_Comm_free(comm);
  }
}

void AllreduceOracle::step(std::span<const float> gradient, std::int64_t k) {
  if (!row_.sparse()) {
    delivered_.assign(gradient.begin(), gradient.end());
    over_group<float>(delivered_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return;
  }
  std::fill(delivered_.begin(), delivered_.end(), 0.0F);
  if (!sharded_) {
    step_sparse(gradient, k, delivered_);
    return;
  }
  std::vector<float> of_node(gradient.begin(), gradient.end());
  over_group<float>(of_node, MPI_FLOAT, MPI_SUM, node_);
  if (const int shard = shards_.mine(); shard >= 0) {
    const auto begin = static_cast<std::size_t>(shards_.begin(shard)), size = static_cast<std::size_t>(shards_.size(shard));
    const std::span<float> update = std::span(delivered_).subspan(begin, size);
    step_sparse(std::span(of_node).subspan(begin, size), shards_.part_of(k, shard, iteration_), update);
  }
  over_group<float>(delivered_, MPI_FLOAT, MPI_SUM, node_);  // each shard is nonzero on one rank of the node only
  ++iteration_;
}

/// Selects the k largest entries of the switch group's sum. Of these, keeps in every part its share of the largest of the groups'
/// sum.
void AllreduceOracle::reduce_by_switch(std::vector<std::uint32_t>& chosen, std::int64_t k, std::span<float> update) {
  std::vector<float> sum(update.size(), 0.0F), of_group(update.size(), 0.0F);
  for (const std::uint32_t i : chosen) sum[i] = residual_[i];
  over_group<float>(sum, MPI_FLOAT, MPI_SUM, switch_members_);
  for (const std::uint32_t i : largest_entries(sum, k)) of_group[i] = sum[i];
  std::erase_if(chosen, [&](std::uint32_t i) { return of_group[i] == 0; });
  if (counterparts_ != MPI_COMM_NULL) {
    const int parts = switches_->parts();
    const auto begin = [&](int part) { return static_cast<std::size_t>(part_begin(update.size(), part, parts)); };
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(parts));
    for (int part = 0; part < parts; ++part) {
      for (std::size_t i = begin(part); i < begin(part + 1); ++i)
        counts[static_cast<std::size_t>(part)] += of_group[i] != 0 ? 1 : 0;
    }
    over_group<std::uint64_t>(counts, MPI_UINT64_T, MPI_SUM, counterparts_);
    const std::size_t first = begin(switches_->mine()), size = begin(switches_->mine() + 1) - first;
    std::vector<float> mine(of_group.begin() + static_cast<std::ptrdiff_t>(first),
                            of_group.begin() + static_cast<std::ptrdiff_t>(first + size));
    over_group<float>(mine, MPI_FLOAT, MPI_SUM, counterparts_);
    for (const std::uint32_t i : largest_entries(mine, share_by_counts(k, counts, switches_->mine(), switch_iteration_)))
      update[first + i] = mine[i];
  }
  over_group<float>(update, MPI_FLOAT, MPI_SUM, switch_members_);
  ++switch_iteration_;
}

void AllreduceOracle::step_sparse(std::span<const float> gradient, std::int64_t k, std::span<float> update) {
  for (std::size_t i = 0; i < gradient.size(); ++i) residual_[i] += gradient[i];
  std::vector<std::uint32_t> chosen = largest_entries(residual_, k);
  std::vector<Sparse> dropped;
  std::vector<std::uint8_t> taken(update.size(), 0);
  if (row_.name == "gtopk") {
    Sparse mine;
    for (const std::uint32_t i : chosen) mine[i] = residual_[i];
    for (const auto& [i, value] : reduce_by_tree(std::move(mine), k, dropped)) {
      update[i] = value;
      taken[i] = 1;
    }
  } else if (switches_) {
    reduce_by_switch(chosen, k, update);
    for (std::size_t i = 0; i < update.size(); ++i) taken[i] = update[i] != 0 ? 1 : 0;
  } else {
    std::vector<float> sum(update.size(), 0.0F);
    for (const std::uint32_t i : chosen) sum[i] = residual_[i];
    over_group<float>(sum, MPI_FLOAT, MPI_SUM, group_);
    for (const std::uint32_t i : largest_entries(sum, row_.delivers_all ? static_cast<std::int64_t>(sum.size()) : k)) {
      update[i] = sum[i];
      taken[i] = 1;
    }
    if (row_.delivers_all) {  // deliver entries that have cancelled to zero, too
      for (const std::uint32_t i : chosen) taken[i] = 1;
    }
  }
  for (const std::uint32_t i : chosen) {
    if (taken[i] != 0) residual_[i] = 0;
  }
  for (const Sparse& list : dropped) {
    for (const auto& [i, value] : list) {
      if (taken[i] != 0) residual_[i] += value;
    }
  }
}

/// Rank 0 gathers by a binary tree, with a cut to k on every rank, and broadcasts the result.
AllreduceOracle::Sparse AllreduceOracle::reduce_by_tree(Sparse mine, std::int64_t k, std::vector<Sparse>& dropped) const {
  int rank = 0, size = 1;
  MPI_Comm_rank(group_, &rank);
  MPI_Comm_size(group_, &size);
  for (int distance = 1; distance < size; distance *= 2) {
    if (rank % (2 * distance) != 0) {
      send_entries(mine, rank - distance, group_);
      break;
    }
    if (rank + distance >= size) continue;
    for (const auto& [i, value] : receive_entries(rank + distance, group_)) mine[i] += value;
    cut(mine, k, dropped.emplace_back());
  }
  if (rank == 0) {
    for (int to = 1; to < size; ++to) send_entries(mine, to, group_);
    return mine;
  }
  return receive_entries(0, group_);
}

}  // namespace weir::cli
