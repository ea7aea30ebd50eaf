
#include <algorithm>
#include <array>
#include <limits>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/switch_groups.hpp"
#include "contribution/threshold.hpp"
#include "model/choose.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {
namespace {

constexpr std::size_t most_candidates = 5;
constexpr double worth_a_trial = 1.5;  // times the cheapest prediction
constexpr std::size_t explained = 8;

bool can_run(const AllreduceRow& row, const CommunicatorState& comm, const AllreduceConfig& config) {
  if (!row.runs_in(config.memory)) return false;
  if (row.needs_allreduce && comm.transport->native_allreduce() == nullptr) return false;
  if (row.sharded && config.memory == MemorySpace::cuda) return false;
  // Without in-node steps and switches, a sparse algorithm is the same as the one that it shards.
  const bool flat = comm.topology.largest_node() == 1 && !(row.by_switch && find_switch_groups(comm.topology));
  if (row.sharded && row.sparse() && flat) return false;
  if (!row.threshold.empty() && row.threshold != config.threshold) return false;  // the user has asked for another selection
  if (row.packed()) return config.type == DataType::float32;
  if (!row.sparse()) return config.algorithm != "auto_sparse";
  return config.count <= std::numeric_limits<std::uint32_t>::max();
}

/// Describes the source of the figures.
std::string figures_of(const FoundMachine& found) {
  if (found.origin == builtin_origin)
    return "built-in figures, since nobody has measured this machine (start `weir calibrate` with mpirun)";
  if (found.origin == "measured") return "figures measured now";
  return fmt::format("the figures of {}", found.origin);
}

std::string explain(const std::vector<Candidate>& list, const FoundMachine& found, const AllreduceConfig& config,
                    const Problem& problem, const Allowed& allowed) {
  std::string text = fmt::format("{} of {} {}, k {}, on {} node{} of {} rank{}, by {}:\n", config.algorithm, config.count,
                                 name_of(config.type), problem.k, problem.nodes, problem.nodes == 1 ? "" : "s",
                                 problem.smallest_node == problem.largest_node
                                     ? fmt::format("{}", problem.largest_node)
                                     : fmt::format("{} to {}", problem.smallest_node, problem.largest_node),
                                 problem.largest_node == 1 ? "" : "s", figures_of(found));
  const bool compressed = !allowed.compressors.empty();
  const auto compressor_column = [&](std::string_view name) { return compressed ? fmt::format("{:<20} ", name) : std::string(); };
  text += fmt::format("  {:<22} {}{:<8} {:<9} {:>10} {:>9} {:>9} {:>9} {:>9}\n", "algorithm", compressor_column("compressor"),
                      "wire", "values", "total ms", "select", "in node", "exchange", "apply");
  for (std::size_t i = 0; i < std::min(explained, list.size()); ++i) {
    const Candidate& c = list[i];
    text += fmt::format("{} {:<22} {}{:<8} {:<9} {:>10.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.3f}\n", i == 0 ? '>' : ' ', c.algorithm,
                        compressor_column(c.compressor_name(allowed)), c.sparse ? name_of(c.format) : "-",
                        c.sparse ? name_of(c.values) : "-", c.cost.seconds() * 1e3, c.cost.select * 1e3, c.cost.in_node * 1e3,
                        c.cost.exchange * 1e3, c.cost.apply * 1e3);
  }
  text += "  times in ms; in node: the stages that stay in nodes; >: the choice\n";
  if (compressed && list.size() > 1 && list.front().compressor_name(allowed) == "none") text += "  compressing does not pay here\n";
  return text;
}

/// Holds what one rank would choose.
struct ChoiceCard {
  struct Item {
    std::int32_t row = 0;  ///< in the registry
    WireFormat format{};
    WireValues values{};
    std::int32_t compressor = -1;  ///< among those that the configuration names; -1 if it names none
  };
  Outcome outcome;
  std::int32_t count = 0;
  std::array<Item, most_candidates> items{};
};

AllreduceConfig with(const AllreduceConfig& config, const ChoiceCard::Item& item) {
  AllreduceConfig chosen = config;
  const AllreduceRow& row = allreduce_registry()[static_cast<std::size_t>(item.row)];
  chosen.algorithm = row.name;
  chosen.algorithm_parameters = parameters_if_chosen(row, config.algorithm_parameters).text();
  chosen.wire_format = item.format;
  chosen.wire_values = item.values;
  if (item.compressor < 0) return chosen;
  const compress::Compressor compressor =
      compress::make_compressors(config.compressor, config.compressor_parameters)[static_cast<std::size_t>(item.compressor)];
  chosen.compressor = compressor ? compressor.row->name : "none";
  chosen.compressor_parameters = compressor.parameters.text();
  return chosen;
}

void choose_here(const CommunicatorState& comm, const FoundMachine& found, const AllreduceConfig& config, ChoiceCard& card,
                 std::string& explanation) {
  Problem problem = make_problem(comm.topology, config.count, final_k(config), config.type);
  problem.shared_memory = comm.settings.shared_memory;
  problem.any_schedule =
      threshold_in_force(config, {}).at_most_k() && config.wire_values == WireValues::native && config.memory == MemorySpace::host;
  Allowed allowed{.algorithms = {},
                  .values = config.wire_values,
                  .compressors = compress::make_compressors(config.compressor, config.compressor_parameters),
                  .parameters = config.algorithm_parameters};
  const std::span<const AllreduceRow> rows = allreduce_registry();
  for (const AllreduceRow& row : rows) {
    if (can_run(row, comm, config)) allowed.algorithms.push_back(row.name);
  }
  std::vector<Candidate> list = choose(found.machine, problem, allowed);
  if (config.wire_format == WireFormat::coo)
    std::erase_if(list, [](const Candidate& c) { return c.sparse && c.format != WireFormat::coo; });
  require(!list.empty(), "compressor is {}: no algorithm that can run here carries it, with type {} and memory {}",
          config.compressor, name_of(config.type), name_of(config.memory));
  explanation = explain(list, found, config, problem, allowed);

  const std::size_t most = config.trial_iterations > 0 ? most_candidates : 1;
  for (const Candidate& candidate : list) {
    const auto row = static_cast<std::int32_t>(&find_allreduce(candidate.algorithm) - rows.data());
    const auto chosen = std::span(card.items).first(static_cast<std::size_t>(card.count));
    const bool tried = std::any_of(chosen.begin(), chosen.end(),
                                   [&](const auto& item) { return item.row == row && item.compressor == candidate.compressor; });
    if (tried || candidate.cost.seconds() > worth_a_trial * list.front().cost.seconds()) continue;
    card.items[static_cast<std::size_t>(card.count++)] = {row, candidate.format, candidate.values, candidate.compressor};
    if (static_cast<std::size_t>(card.count) == most) break;
  }
}

}  // namespace

Choice choose_algorithm(CommunicatorState& comm, const AllreduceConfig& config) {
  const FoundMachine& found = comm.agreed_machine();
  Choice choice;
  ChoiceCard mine;
  mine.outcome = outcome_of([&] { choose_here(comm, found, config, mine, choice.explanation); });
  // Costs are sums of rounded products: processors of different types may order two close costs differently.
  const ChoiceCard decided = comm.share("choosing an algorithm", mine)[0];
  comm.agree("choosing an algorithm", "plan", config.name, [&] {
    if (mine.outcome.failed()) throw Error(static_cast<weir_status>(mine.outcome.status), mine.outcome.text.data());
    for (const auto& item : std::span(decided.items).first(static_cast<std::size_t>(decided.count)))
      choice.candidates.push_back(with(config, item));
  });
  return choice;
}

}  // namespace weir::detail
