#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/nearest.hpp"
#include "collectives/allgatherv.hpp"
#include "sums/entry_code.hpp"
#include "sums/sum_row.hpp"

namespace weir::sums {

#define WEIR_SUM(name) extern const SumRow name##_sum_row;
#include "sums/sums.def"
#undef WEIR_SUM

namespace {

constexpr const SumRow* sum_rows[] = {
#define WEIR_SUM(name) &name##_sum_row,
#include "sums/sums.def"
#undef WEIR_SUM
};

}  // namespace

std::span<const SumRow* const> sum_registry() { return sum_rows; }

const SumRow* find_sum(std::string_view name) {
  if (name == "auto") return nullptr;
  std::string known;
  std::vector<std::string_view> names = {"auto"};
  for (const SumRow* row : sum_rows) {
    if (row->name == name) return row;
    known += fmt::format("{}, ", row->name);
    names.push_back(row->name);
  }
  fail(WEIR_ERR_ARGUMENT, "there is no algorithm '{}' for sparse sums: known are {}auto; did you mean '{}'?", name, known,
       nearest(name, names));
}

void check_operation(const SparseSumConfig& config) {
  const bool floats = config.type == SumType::float32 || config.type == SumType::float64;
  require(config.operation != SumOperation::checked_sum || !floats,
          "operation is checked_sum and type is {}: only sums of int32 or int64 can be checked", name_of(config.type));
  const SumRow* row = find_sum(config.algorithm);
  if (row == nullptr || row->keeps_terms || !keeps_terms(config.operation, config.type)) return;
  std::string able;
  for (const SumRow* other : sum_rows) {
    if (other->keeps_terms) able += fmt::format("{}, ", other->name);
  }
  fail(WEIR_ERR_ARGUMENT, "algorithm '{}' cannot make a reproducible_sum of {}: {}auto can", row->name, name_of(config.type), able);
}

model::StepCost cost_of_sum(const SumRow& row, const model::Setting& setting, const SumProblem& problem) {
  model::StepCost cost = row.cost(setting, problem);
  if (row.needs == Shown::nothing) cost += setting.network.allgather(setting.all, card_bytes);
  if (row.needs == Shown::nodes) {
    cost.seconds += setting.network.all_to_all(setting.node, 0, problem.per_node).seconds;
    cost += setting.network.allgather(setting.rings, (problem.per_node + 1) * static_cast<double>(card_bytes));
  }
  return cost;
}

const SumRow& choose_sum(const model::Setting& setting, const SumProblem& problem) {
  const SumRow* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const SumRow* row : sum_rows) {
    if (!can_make(*row, problem)) continue;
    const double seconds = row->cost(setting, problem).seconds;
    if (best != nullptr && seconds >= least) continue;
    best = row;
    least = seconds;
  }
  return *best;
}

SumChoices::Choice SumChoices::choose(const Machine& machine, const Problem& places, const SumProblem& problem) {
  constexpr int digits = 4, code_bits = 10;  // of each number
  SumProblem alike = problem;
  std::uint64_t key = (problem.scatters ? 1u : 0u) | (problem.per_node > 0 ? 2u : 0u);
  for (std::int64_t* const number : {&alike.total, &alike.largest, &alike.blocks, &alike.largest_blocks}) {
    const int dropped = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(*number))) - digits);
    const std::int64_t first = *number >> dropped;
    *number = *number < 0 ? *number : first << dropped;
    key = key << code_bits | (static_cast<std::uint64_t>(dropped << digits | first) & ((1u << code_bits) - 1));
  }
  alike.largest = std::max(alike.largest, (alike.total + alike.ranks - 1) / alike.ranks);
  Known& known = known_[(key * 0x9e3779b97f4a7c15u) >> 58];
  if (known.choice.row == nullptr || known.key != key) {
    const model::Setting setting(machine, places);
    known = {key, {&choose_sum(setting, alike), has_nodes(alike) ? &choose_across(setting, alike) : nullptr}};
  }
  return known.choice;
}

std::int64_t SumProblem::message_bytes(std::int64_t entries, std::int64_t messages) const {
  return most_message_bytes(value_size, entries, messages, count);
}

Rates rates_of_sums(const Machine& machine) {
  // The rates are of 32-bit indices and floats, in vectors. These shares were measured with 64-bit indices and doubles.
  Rates rates = machine.rates;
  rates.merge *= 0.6;
  rates.encode *= 0.4;
  rates.decode *= 0.3;
  return rates;
}

double expected_union(double total, int ranks, double count) {
  constexpr double rarely = 1e-6;  // lists have nearly nothing in common, and differences of 1 would lose digits
  return total < rarely * count ? total : model::distinct(count, total / ranks, ranks);
}

double expected_bytes(double entries, double range, std::int64_t value_size) {
  if (entries <= 0) return 0;
  const double gap = std::max(1.0, range / entries);
  const int low_bits = std::ilogb(gap);
  const double index_bits = gap > 1 ? std::min(gap, low_bits + 1 + std::scalbn(gap, -low_bits)) : 0;
  return entries * (static_cast<double>(value_size) + index_bits / 8);
}

model::StepCost gather_blocks(const model::Setting& setting, double bytes) {
  const bool by_ring = setting.all.ranks * bytes >= ring_from_bytes;
  return by_ring ? setting.network.ring_allgather(setting.all, bytes) : setting.network.allgather(setting.all, bytes);
}

double merge_seconds(const model::Setting& setting, const SumProblem& problem, double entries, double range) {
  // Terms that are kept go into every merge, and are read once more to be summed.
  const double merged = problem.keeps_terms ? problem.ranks * entries * (steps_of(problem.ranks) + 1)
                                            : model::merged_entries(range, entries, problem.ranks);
  return merged / rates_of_sums(setting.machine).merge;
}

bool has_place(const SumRow& row, const Topology& topology) {
  if (row.needs == Shown::node) return topology.node_count() == 1;
  return row.needs == Shown::nothing || ranks_summed_in_nodes(topology) > 0;
}

std::int64_t count_blocks(const std::int64_t* indices, std::int64_t count) {
  std::int64_t blocks = count > 0 ? 1 : 0;
  for (std::int64_t i = 1; i < count; ++i) blocks += (indices[i - 1] ^ indices[i]) >= block_elements;
  return blocks;
}

int ranks_summed_in_nodes(const Topology& topology) {
  const int nodes = topology.node_count(), per_node = topology.largest_node();
  if (nodes == 1) return per_node;
  if (topology.smallest_node() != per_node || per_node == 1 || !std::has_single_bit(static_cast<unsigned>(per_node))) return 0;
  for (int rank = 0; rank < topology.size(); ++rank) {
    if (topology.node_of(rank) != rank / per_node) return 0;
  }
  return per_node;
}

int steps_of(int ranks) { return std::bit_width(static_cast<unsigned>(ranks - 1)); }

template <class T>
SumMemory<T>::SumMemory(int ranks)
    : offset(static_cast<std::size_t>(ranks) + 1),
      counts_out(static_cast<std::size_t>(ranks)),
      counts_in(static_cast<std::size_t>(ranks)),
      begins(static_cast<std::size_t>(ranks)),
      gathered(static_cast<std::size_t>(ranks)),
      gathered_scratch(static_cast<std::size_t>(ranks)),
      samples(static_cast<std::size_t>(ranks * samples_of_rank)),
      samples_scratch(samples.size()),
      weighted(samples.size()),
      heads(static_cast<std::size_t>(ranks)),
      requests(2 * static_cast<std::size_t>(ranks)),
      counts(ranks),
      boundaries(static_cast<std::size_t>(ranks) + 1),
      parts(static_cast<std::size_t>(ranks)) {}

template <class T>
Entries<T> merge_parts(SumRun<T>& run, std::span<const std::int64_t> begin) {
  auto& memory = run.memory;
  combine_in_order(run.problem.ranks, [&](int a, int b) {
    auto& lower = memory.parts[static_cast<std::size_t>(a)];
    const auto& upper = memory.parts[static_cast<std::size_t>(b)];
    if (upper.entries.count == 0) return;
    if (lower.entries.count == 0) {
      lower = upper;
      return;
    }
    // Into the list where `lower` is not: `upper` may be there, and lies behind all that is written before it is read.
    const int list = 1 - lower.list;
    EntryMemory<T>& to = memory.lists[static_cast<std::size_t>(list)];
    const std::int64_t first = begin[static_cast<std::size_t>(a)];
    const std::int64_t count =
        run.arithmetic->merge(lower.entries, upper.entries, to.indices.data() + first, to.values.data() + first);
    lower = {{to.indices.data() + first, to.values.data() + first, count}, list};
  });
  const auto& sum = memory.parts[0];
  if (!run.arithmetic->keeps_terms) return sum.entries;
  EntryMemory<T>& to = memory.lists[static_cast<std::size_t>(sum.list)];
  return to.first(run.arithmetic->total(sum.entries, to.indices.data(), to.values.data()));
}

template struct SumMemory<float>;
template struct SumMemory<double>;
template struct SumMemory<std::int32_t>;
template struct SumMemory<std::int64_t>;
template Entries<float> merge_parts(SumRun<float>&, std::span<const std::int64_t>);
template Entries<double> merge_parts(SumRun<double>&, std::span<const std::int64_t>);
template Entries<std::int32_t> merge_parts(SumRun<std::int32_t>&, std::span<const std::int64_t>);
template Entries<std::int64_t> merge_parts(SumRun<std::int64_t>&, std::span<const std::int64_t>);

}  // namespace weir::sums
