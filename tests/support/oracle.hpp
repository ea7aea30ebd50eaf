// oracle.hpp: a slow, obvious sparse allreduce: the data of all ranks in one place, plain sorts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <numeric>
#include <vector>

#include "collectives/node_shards.hpp"
#include "collectives/switch_groups.hpp"
#include "kernels/kernels.hpp"

namespace weir::test {

/// Returns the indices of the k largest nonzero magnitudes, ascending. Ties go to the lowest index.
template <class T>
std::vector<std::uint32_t> topk(const std::vector<T>& x, std::int64_t k) {
  std::vector<std::uint32_t> order(x.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::uint32_t i) { return x[i] == 0; });
  const auto larger = [&](std::uint32_t a, std::uint32_t b) {
    return key_of(x[a]) != key_of(x[b]) ? key_of(x[a]) > key_of(x[b]) : a < b;
  };
  if (static_cast<std::size_t>(k) < order.size()) {
    std::nth_element(order.begin(), order.begin() + k, order.end(), larger);
    order.resize(static_cast<std::size_t>(k));
  }
  std::sort(order.begin(), order.end());
  return order;
}

/// Sums in the order of a binary tree over the ranks: pairs, then pairs of pairs. Ranks without the entry are skipped.
template <class T>
struct Optional {
  bool set = false;
  T value = 0;
};
template <class T>
Optional<T> tree_sum(std::vector<Optional<T>> x) {
  while (x.size() > 1) {
    std::vector<Optional<T>> next;
    for (std::size_t i = 0; i < x.size(); i += 2) {
      if (i + 1 == x.size() || !x[i + 1].set)
        next.push_back(x[i]);
      else if (!x[i].set)
        next.push_back(x[i + 1]);
      else
        next.push_back({true, x[i].value + x[i + 1].value});
    }
    x = next;
  }
  return x[0];
}

/// How an algorithm delivers what ranks contribute.
enum class Delivery { cut, all, tree };  ///< the k largest of the sum; all of it; gTopk's reduction tree

/// Groups of ranks by switch: the positions of a group's ranks, in rank order, and, for each part of the elements, those of its
/// owners.
struct SwitchOrder {
  std::vector<std::vector<std::size_t>> groups, owners;
};

/// A sparse allreduce with exact selection and error feedback, all ranks at once.
template <class T>
class FlatOracle {
 public:
  using Sparse = std::map<std::uint32_t, T>;

  /// With `switches`, cuts within groups, then among groups.
  FlatOracle(Delivery delivery, std::size_t ranks, std::size_t n, SwitchOrder switches = {})
      : residual(ranks, std::vector<T>(n)), delivery_(delivery), switches_(std::move(switches)) {}

  std::vector<std::vector<T>> residual;
  Sparse update;  // not averaged

  void step(const std::vector<std::vector<T>>& gradients, std::int64_t k) {
    const std::size_t ranks = gradients.size();
    std::vector<Sparse> local(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t i = 0; i < gradients[r].size(); ++i) residual[r][i] += gradients[r][i];
      for (const std::uint32_t i : topk(residual[r], k)) local[r].emplace_hint(local[r].end(), i, residual[r][i]);
    }
    std::vector<std::vector<Sparse>> dropped(ranks);
    std::vector<Sparse> contributed = local;  // what goes into the sum
    if (!switches_.groups.empty())
      update = reduce_by_switch(contributed, k);
    else
      update = delivery_ == Delivery::tree ? reduce_by_tree(local, k, dropped) : cut(sum(local), k);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (const auto& entry : contributed[r]) {
        if (update.contains(entry.first)) residual[r][entry.first] = 0;
      }
      for (const Sparse& list : dropped[r]) {
        for (const auto& entry : list) {
          if (update.contains(entry.first)) residual[r][entry.first] += entry.second;
        }
      }
    }
  }

 private:
  static Sparse sum(const std::vector<Sparse>& local) {
    struct Entry {
      std::uint32_t index;
      std::size_t rank;
      T value;
    };
    std::vector<Entry> entries;
    for (std::size_t r = 0; r < local.size(); ++r) {
      for (const auto& [i, value] : local[r]) entries.push_back({i, r, value});
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.index < b.index; });
    Sparse total;
    for (std::size_t at = 0; at < entries.size();) {
      const std::uint32_t index = entries[at].index;
      std::vector<Optional<T>> values(local.size());
      for (; at < entries.size() && entries[at].index == index; ++at) values[entries[at].rank] = {true, entries[at].value};
      total.emplace_hint(total.end(), index, tree_sum(values).value);
    }
    return total;
  }

  Sparse cut(const Sparse& total, std::int64_t k) const { return delivery_ == Delivery::all ? total : largest(total, k); }

  static Sparse largest(const Sparse& entries, std::int64_t k) {
    std::vector<std::uint32_t> indices;
    std::vector<T> values;
    for (const auto& [i, value] : entries) {
      indices.push_back(i);
      values.push_back(value);
    }
    Sparse kept;
    for (const std::uint32_t at : topk(values, k)) kept.emplace_hint(kept.end(), indices[at], values[at]);
    return kept;
  }

  /// Selects the k largest of each group's sum. Of these, selects every part's k_p largest of the sum over groups. `contributed`
  /// keeps what its rank's group has selected.
  Sparse reduce_by_switch(std::vector<Sparse>& contributed, std::int64_t k) {
    const std::size_t n = residual[0].size();
    const int parts = static_cast<int>(switches_.owners.size());
    std::vector<Sparse> selected(contributed.size());  // by the group, for each of its ranks
    std::vector<std::uint64_t> counts(switches_.owners.size());
    const auto within = [&](const Sparse& entries, int part) {
      return Sparse(entries.lower_bound(static_cast<std::uint32_t>(part_begin(n, part, parts))),
                    entries.lower_bound(static_cast<std::uint32_t>(part_begin(n, part + 1, parts))));
    };
    for (const auto& group : switches_.groups) {
      std::vector<Sparse> members;
      for (const std::size_t r : group) members.push_back(contributed[r]);
      const Sparse of_group = cut(sum(members), k);
      for (int p = 0; p < parts; ++p) counts[static_cast<std::size_t>(p)] += within(of_group, p).size();
      for (const std::size_t r : group) {
        selected[r] = of_group;
        std::erase_if(contributed[r], [&](const auto& entry) { return !of_group.contains(entry.first); });
      }
    }
    Sparse delivered;
    for (int p = 0; p < parts; ++p) {
      std::vector<Sparse> of_part;
      for (const std::size_t r : switches_.owners[static_cast<std::size_t>(p)]) of_part.push_back(within(selected[r], p));
      delivered.merge(cut(sum(of_part), share_by_counts(k, counts, p, iteration_)));
    }
    ++iteration_;
    return delivered;
  }

  static Sparse reduce_by_tree(std::vector<Sparse> vectors, std::int64_t k, std::vector<std::vector<Sparse>>& dropped) {
    for (std::size_t distance = 1; distance < vectors.size(); distance *= 2) {
      for (std::size_t r = 0; r + distance < vectors.size(); r += 2 * distance) {
        Sparse both = vectors[r];
        for (const auto& [i, value] : vectors[r + distance]) {
          const auto [place, fresh] = both.try_emplace(i, value);
          if (!fresh) place->second = place->second + value;
        }
        vectors[r] = static_cast<std::int64_t>(both.size()) > k ? largest(both, k) : both;
        for (const auto& kept : vectors[r]) both.erase(kept.first);
        dropped[r].push_back(both);
      }
    }
    return vectors[0];
  }

  Delivery delivery_;
  SwitchOrder switches_;
  std::int64_t iteration_ = 0;
};

/// The oracle of any sparse algorithm of the registry, on the whole machine. A sharding algorithm is a flat one per shard, among
/// nodes.
template <class T>
class Oracle {
 public:
  /// `locations`: of all ranks. With one rank per node, every algorithm is flat.
  Oracle(const AllreduceRow& row, const std::vector<Location>& locations, std::int64_t n) : n_(n) {
    const Delivery delivery = row.name == "gtopk" ? Delivery::tree : row.delivers_all ? Delivery::all : Delivery::cut;
    const Topology of_0(locations, 0);
    sharded_ = row.sharded && of_0.largest_node() > 1;
    const int ranks = of_0.size();
    for (int r = 0; r < ranks; ++r) {
      topologies_.emplace_back(locations, r);
      maps_.emplace_back(topologies_.back(), n);
    }
    const bool by_switch = row.by_switch && find_switch_groups(of_0) != nullptr && (sharded_ || of_0.largest_node() == 1);
    if (!sharded_) {
      flat_.emplace_back(delivery, static_cast<std::size_t>(ranks), static_cast<std::size_t>(n),
                         by_switch ? switch_order(0) : SwitchOrder{});
      return;
    }
    for (int shard = 0; shard < of_0.smallest_node(); ++shard)
      flat_.emplace_back(delivery, static_cast<std::size_t>(of_0.node_count()), static_cast<std::size_t>(maps_[0].size(shard)),
                         by_switch ? switch_order(shard) : SwitchOrder{});
  }

  std::vector<std::uint32_t> indices;  // of the update
  std::vector<T> sums;                 // not averaged

  /// Returns the residual of the plan of `rank`.
  [[nodiscard]] std::vector<T> residual(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    if (!sharded_) return flat_[0].residual[r];
    if (maps_[r].mine() < 0) return {};
    return flat_[static_cast<std::size_t>(maps_[r].mine())].residual[place_of(rank)];
  }

  /// Without error feedback, only the number of steps is kept between steps.
  void forget_residuals() {
    for (FlatOracle<T>& flat : flat_) {
      for (std::vector<T>& residual : flat.residual) std::fill(residual.begin(), residual.end(), T{});
    }
  }

  void step(const std::vector<std::vector<T>>& gradients, std::int64_t k) {
    if (!sharded_) {
      flat_[0].step(gradients, k);
    } else {
      for (std::size_t shard = 0; shard < flat_.size(); ++shard) {
        const int s = static_cast<int>(shard);
        flat_[shard].step(node_sums(gradients, s), maps_[0].part_of(k, s, iteration_));
      }
    }
    ++iteration_;
    indices.clear();
    sums.clear();
    for (std::size_t shard = 0; shard < flat_.size(); ++shard) {
      const std::int64_t base = sharded_ ? maps_[0].begin(static_cast<int>(shard)) : 0;
      for (const auto& [i, value] : flat_[shard].update) {
        indices.push_back(i + static_cast<std::uint32_t>(base));
        sums.push_back(value);
      }
    }
  }

 private:
  /// Returns how switches group the owners of `shard`.
  [[nodiscard]] SwitchOrder switch_order(int shard) const {
    std::map<int, std::vector<std::size_t>> groups;
    std::size_t place = 0;
    for (const Topology& topology : topologies_) {
      if (topology.local_rank(topology.rank()) == shard) groups[topology.switch_of(topology.rank())].push_back(place++);
    }
    SwitchOrder order;
    std::size_t smallest = place;
    for (const auto& group : groups) {
      order.groups.push_back(group.second);
      smallest = std::min(smallest, group.second.size());
    }
    for (std::size_t p = 0; p < smallest; ++p) {
      order.owners.emplace_back();
      for (const auto& group : order.groups) order.owners.back().push_back(group[p]);
      std::sort(order.owners.back().begin(), order.owners.back().end());
    }
    return order;
  }

  /// Returns the place of `rank` among the owners of its shard, which add their nodes' sums in the order of ranks.
  [[nodiscard]] std::size_t place_of(int rank) const {
    const auto owners = maps_[static_cast<std::size_t>(rank)].rail();
    return static_cast<std::size_t>(std::lower_bound(owners.begin(), owners.end(), rank) - owners.begin());
  }

  /// Returns, by owner, the sum of one shard over the owner's node, starting from the owner and going down the local ranks.
  std::vector<std::vector<T>> node_sums(const std::vector<std::vector<T>>& gradients, int shard) const {
    std::vector<std::vector<T>> sums_of_nodes(static_cast<std::size_t>(topologies_[0].node_count()));
    for (std::size_t r = 0; r < gradients.size(); ++r) {
      if (maps_[r].mine() != shard) continue;
      const auto peers = topologies_[r].node_peers();
      std::vector<T> total;
      for (std::size_t s = 0; s < peers.size(); ++s) {
        const auto& g =
            gradients[static_cast<std::size_t>(peers[(static_cast<std::size_t>(shard) + peers.size() - s) % peers.size()])];
        for (std::int64_t i = 0; i < maps_[0].size(shard); ++i) {
          const T value = g[static_cast<std::size_t>(maps_[0].begin(shard) + i)];
          if (s == 0)
            total.push_back(value);
          else
            total[static_cast<std::size_t>(i)] += value;
        }
      }
      sums_of_nodes[place_of(static_cast<int>(r))] = total;
    }
    return sums_of_nodes;
  }

  std::int64_t n_;
  bool sharded_ = false;
  std::int64_t iteration_ = 0;
  std::deque<Topology> topologies_;  // maps keep references to them
  std::vector<ShardMap> maps_;
  std::vector<FlatOracle<T>> flat_;
};

}  // namespace weir::test
