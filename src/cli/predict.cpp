// weir predict: predicts the time of every algorithm of allreduce, or of exact sparse sums, without running anything.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/named_options.hpp"
#include "cli/report.hpp"
#include "collectives/allreduce.hpp"
#include "model/choose.hpp"
#include "model/lookup.hpp"
#include "sums/sum_row.hpp"

namespace weir::cli {
namespace {

using Unit = std::pair<std::string_view, double>;
constexpr std::array bandwidth_units = {Unit{"kbit", 1e3 / 8}, Unit{"Mbit", 1e6 / 8}, Unit{"Gbit", 1e9 / 8},
                                        Unit{"Tbit", 1e12 / 8}};
constexpr std::array time_units = {Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}};
// The cost of a message among many in flight, as a share of the latency; the same as in the built-in machine.
constexpr double overhead_share = 0.15;
constexpr std::int64_t most_of_gradient = 4294967295, most_of_sum = std::int64_t{1} << 40;

template <std::size_t N>
std::optional<double> quantity(std::string_view text, const std::array<Unit, N>& units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !(number > 0) || number > 1e9) return {};
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, factor] : units) {
    if (unit == name) return number * factor;
  }
  return {};
}

/// Parses for example "25Gbit,5us" as the link between nodes: what a node can send in each direction, and the one-way time of a
/// message of a few bytes. Throws Error saying what would be valid.
Link parse_network(const std::string& text) {
  const std::string_view whole = text;
  const std::size_t comma = whole.find(',');
  if (comma != std::string_view::npos) {
    const std::optional<double> bandwidth = quantity(whole.substr(0, comma), bandwidth_units);
    const std::optional<double> latency = quantity(whole.substr(comma + 1), time_units);
    if (bandwidth && latency)
      return {.latency = *latency,
              .overhead = overhead_share * *latency,
              .bandwidth = *bandwidth,
              .exchange = *bandwidth,
              .shared = *bandwidth};
  }
  fail(
      WEIR_ERR_ARGUMENT,
      "--network is '{}': it must be a node's bandwidth (in kbit, Mbit, Gbit or Tbit a second) and a latency (in ns, us, ms or s), "
      "for example 25Gbit,5us",
      text);
}

struct Options {
  std::string machine, network, json, parameters;
  std::vector<std::string> compressors;  ///< empty: the algorithms' own
  WireFormat wire = WireFormat::compact;
  WireValues values = WireValues::native;
  std::int64_t count = 4194304;
  double density = 0.01;
  int nodes = 2, ranks_per_node = 1;
  bool sum = false;  ///< predict sums, of this type:
  SumType type = SumType::float64;
};

Problem problem_of(const Options& options) {
  Problem problem;
  problem.count = options.count;
  problem.k = std::max<std::int64_t>(1, std::llround(options.density * static_cast<double>(options.count)));
  problem.format = options.wire;
  problem.values = options.values;
  problem.any_schedule = true;  // exact selection, in host memory
  problem.ranks = options.nodes * options.ranks_per_node;
  problem.nodes = options.nodes;
  problem.smallest_node = problem.largest_node = options.ranks_per_node;
  return problem;
}

/// Returns every algorithm with every compressor that it carries, in the requested format, cheapest first.
std::vector<Candidate> predict(const Machine& machine, const Problem& problem, const Allowed& allowed) {
  std::vector<Candidate> list;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.host_memory) continue;  // the machine's figures are for host memory
    if (allowed.compressors.empty() && !row.packed())
      list.push_back({row.name, row.sparse(), problem.format, problem.values, row.cost(machine, problem)});
    for (std::size_t i = 0; i < allowed.compressors.size(); ++i) {
      const compress::Compressor& compressor = allowed.compressors[i];
      if (carries(row, compressor))
        list.push_back({row.name, row.sparse(), problem.format, problem.values, compressed_cost(machine, problem, row, compressor),
                        static_cast<int>(i)});
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.seconds() < b.cost.seconds(); });
  return list;
}

/// Returns the fastest candidate that delivers the exact whole sum. There is always one: `none` is allowed.
const Candidate& best_dense(const std::vector<Candidate>& list, const Allowed& allowed) {
  return *std::find_if(list.begin(), list.end(), [&](const Candidate& c) { return c.compressor_name(allowed) == "none"; });
}

std::string full_name(const Candidate& c, const Allowed& allowed) {
  return c.compressor < 0 || c.compressor_name(allowed) == "none"
             ? std::string(c.algorithm)
             : fmt::format("{} of {}", c.algorithm, text_of(allowed.compressors[static_cast<std::size_t>(c.compressor)]));
}

/// Returns why no cheapest candidate is named, or "" if the figures are good enough.
std::string why_no_verdict(const Machine& machine, const Problem& problem, bool network_given) {
  if (problem.nodes > 1 && !network_given && machine.provenance.nodes < 2)
    return "no cheapest one is named, since nobody has measured the network between nodes: give it with --network 25Gbit,5us, say, "
           "or "
           "start `weir calibrate` with mpirun on two nodes or more";
  if (problem.nodes == 1 && machine.provenance.ranks < 2)
    return "no cheapest one is named, since nobody has measured this machine: start `weir calibrate` with mpirun";
  return "";
}

std::string verdict(const std::vector<Candidate>& list, const Allowed& allowed) {
  const Candidate& best = list.front();
  const Candidate& dense = best_dense(list, allowed);
  const double best_ms = best.cost.seconds() * 1e3;
  const auto other =
      std::find_if(list.begin(), list.end(), [&](const Candidate& c) { return c.compressor_name(allowed) != "none"; });
  if (&best == &dense && other == list.end()) return fmt::format("cheapest: {}, {:.3f} ms", best.algorithm, best_ms);
  if (&best == &dense)
    return fmt::format("do not compress: {} takes {:.3f} ms, the cheapest {}, {}, {:.3f} ms", best.algorithm, best_ms,
                       allowed.compressors.empty() ? "sparse algorithm" : "compressed one", full_name(*other, allowed),
                       other->cost.seconds() * 1e3);
  return fmt::format("cheapest: {}, {:.3f} ms, {:.1f} times as fast as {}", full_name(best, allowed), best_ms,
                     dense.cost.seconds() / best.cost.seconds(), dense.algorithm);
}

/// What --json writes, and what is printed.
struct Predictions {
  Rows rows{};
  std::vector<std::string> names{};  ///< full names, of each row
  std::string verdict{}, chosen{};   ///< chosen: the sum that `auto` takes; what an allreduce takes also depends on the plan
};

Predictions predict_allreduce(const Machine& machine, const Problem& problem, const Allowed& allowed) {
  const std::vector<Candidate> list = predict(machine, problem, allowed);
  const double dense = best_dense(list, allowed).cost.seconds();
  Predictions result{.verdict = verdict(list, allowed)};
  for (const Candidate& c : list) {
    const std::string parameters =
        c.compressor < 0 ? "" : allowed.compressors[static_cast<std::size_t>(c.compressor)].parameters.text();
    result.rows.push_back({{"algorithm", c.algorithm},
                           {"compressor", c.compressor_name(allowed)},
                           {"compressor_parameters", parameters},
                           {"total_ms", c.cost.seconds() * 1e3},
                           {"select_ms", c.cost.select * 1e3},
                           {"in_node_ms", c.cost.in_node * 1e3},
                           {"exchange_ms", c.cost.exchange * 1e3},
                           {"apply_ms", c.cost.apply * 1e3},
                           {"bytes_in_node", c.cost.bytes_in_node},
                           {"bytes_across", c.cost.bytes_across},
                           {"to_dense", c.cost.seconds() / dense}});
    result.names.push_back(full_name(c, allowed));
  }
  return result;
}

void print_allreduce(const Rows& rows) {
  print_table(rows,
              "{name:<20+} {total_ms:>10.3f} {select_ms:>9.3f} {in_node_ms:>9.3f} {exchange_ms:>9.3f} {apply_ms:>9.3f} "
              "{bytes_in_node:>14.0f} {bytes_across:>14.0f} {to_dense:>9.3f}",
              {"algorithm", "total ms", "select", "in node", "exchange", "apply", "bytes in node", "bytes across", "to dense"});
  fmt::print(
      "\ntotal, select, in node, exchange, apply: ms of one allreduce; in node: the stages that stay in nodes; bytes: sent in it "
      "by the\n"
      "busiest rank, to its own node and to others; to dense: total ms, relative to the fastest dense algorithm\n");
}

/// Predicts every sum, and the fastest dense allreduce of the same array. Only MPI's takes integers.
Predictions predict_sums(const Machine& machine, Problem problem, SumType type) {
  problem.value_bytes = type == SumType::float32 || type == SumType::int32 ? 4 : 8;
  if (problem.k > std::numeric_limits<std::int64_t>::max() / problem.ranks)
    give_up("{} ranks with {} entries each have 2^63 entries or more: lower --count, --density or the number of ranks",
            problem.ranks, problem.k);
  std::vector<Candidate> list = predict(machine, problem, {});
  if (type == SumType::int32 || type == SumType::int64)
    std::erase_if(list, [](const Candidate& c) { return c.algorithm != dense_mpi_row.name; });
  const Candidate& dense = best_dense(list, {});
  const model::Setting setting(machine, problem);
  sums::SumProblem sum{problem.ranks, problem.count, problem.ranks * problem.k, problem.k, problem.value_bytes};
  const int per_node = problem.largest_node;
  const bool alike = problem.smallest_node == per_node && std::has_single_bit(static_cast<unsigned>(per_node));
  if (per_node > 1 && (problem.nodes == 1 || alike)) sum.per_node = per_node;
  const sums::SumRow& best = choose_sum(setting, sum);

  Predictions result;
  const auto add = [&](std::string_view collective, std::string_view name, double seconds, const auto& cost) {
    result.rows.push_back({{"collective", collective},
                           {"algorithm", name},
                           {"total_ms", seconds * 1e3},
                           {"bytes_in_node", cost.bytes_in_node},
                           {"bytes_across", cost.bytes_across},
                           {"to_dense", seconds / dense.cost.seconds()}});
  };
  for (const sums::SumRow* row : sums::sum_registry()) {
    if (!can_make(*row, sum)) continue;
    const model::StepCost cost = cost_of_sum(*row, setting, sum);
    add("sum", row->name, cost.seconds, cost);
  }
  add("allreduce", dense.algorithm, dense.cost.seconds(), dense.cost);
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const JsonValue& a, const JsonValue& b) { return number_of(a, "total_ms") < number_of(b, "total_ms"); });
  for (const JsonValue& row : result.rows) {
    const std::string name = row.view().at("algorithm").string(), collective = row.view().at("collective").string();
    result.names.push_back(fmt::format("{} {}", name == best.name ? '>' : ' ', collective == "sum" ? name : "allreduce, " + name));
  }
  const double best_ms = cost_of_sum(best, setting, sum).seconds * 1e3, dense_ms = dense.cost.seconds() * 1e3;
  result.chosen = best.name;
  result.verdict = best_ms < dense_ms ? fmt::format("cheapest: {}, {:.3f} ms, {:.1f} times as fast as {}", best.name, best_ms,
                                                    dense_ms / best_ms, dense.algorithm)
                                      : fmt::format("take an allreduce: {} takes {:.3f} ms, the cheapest sum, {}, {:.3f} ms",
                                                    dense.algorithm, dense_ms, best.name, best_ms);
  return result;
}

void print_sums(const Rows& rows) {
  print_table(rows, "{name:<24+} {total_ms:>10.3f} {bytes_in_node:>14.0f} {bytes_across:>14.0f} {to_dense:>9.3f}",
              {"  algorithm", "total ms", "bytes in node", "bytes across", "to dense"});
  fmt::print(
      "\n>: what auto takes; total: ms of one sum; bytes: sent in it by the busiest rank, to its own node and to others; to "
      "dense:\n"
      "total ms, relative to the fastest dense allreduce. Predictions assume random entries, equally many on each rank.\n");
}

/// Returns the machine, with the given network, if any.
FoundMachine machine_of(const Options& options, const Settings& settings) {
  FoundMachine found = find_machine(settings);
  if (options.network.empty()) return found;
  Machine& machine = found.machine;
  machine.links[static_cast<std::size_t>(Level::switch_group)] = {};
  machine.links[static_cast<std::size_t>(Level::system)] = parse_network(options.network);
  if (machine.provenance.nodes < 2) machine.mpi_allreduce_factor = 1;  // measured inside one node, or not at all
  found.origin += fmt::format(", with {} between nodes", options.network);
  return found;
}

/// Returns `none` and the compressors that were named.
Allowed allowed_by(const Options& options) {
  Allowed allowed;
  const std::vector<std::string> names =
      names_all(options.compressors) ? names_in(compress::compressor_registry()) : options.compressors;
  const std::vector<NamedCompressor> list = named_compressors(names, options.parameters);
  if (!list.empty()) allowed.compressors.emplace_back();
  for (const NamedCompressor& named : list) {
    if (named.names != "none") allowed.compressors.push_back(compress::make_compressor(named.names, named.parameters));
  }
  return allowed;
}

void run(const Options& options) {
  require_writable(options.json);
  const Allowed allowed = allowed_by(options);
  Settings settings = read_settings();
  if (!options.machine.empty()) settings.machine = options.machine;
  const FoundMachine found = machine_of(options, settings);
  Problem problem = problem_of(options);
  problem.shared_memory = settings.shared_memory;
  if (problem.ranks == 1)
    throw Error(WEIR_ERR_ARGUMENT, "one rank exchanges nothing: set --nodes or --ranks-per-node to 2 or more");
  if (!options.sum && options.count > most_of_gradient)
    fail(WEIR_ERR_ARGUMENT, "--count is {}: a gradient has at most {} elements; only with --sum there may be more", options.count,
         most_of_gradient);
  const Predictions predictions =
      options.sum ? predict_sums(found.machine, problem, options.type) : predict_allreduce(found.machine, problem, allowed);
  const std::string silence = why_no_verdict(found.machine, problem, !options.network.empty());
  const std::string conclusion = silence.empty() ? predictions.verdict : silence;
  fmt::print("machine: {}\n", found.origin);
  if (!silence.empty()) {
    const bool has_network = found.machine.has(Level::switch_group) || found.machine.has(Level::system);
    fmt::print("caution: {}\n", problem.nodes == 1 || has_network
                                    ? "these are round figures, not this machine's"
                                    : "the network between nodes is priced like the inside of a node: all times are far too short");
  }
  fmt::print("{} of {} {}, density {:.4g}, {} of {}\n\n", options.sum ? "sum" : "allreduce", problem.count,
             options.sum ? name_of(options.type) : "float32", options.density,
             count_text(static_cast<std::size_t>(options.nodes), "node"),
             count_text(static_cast<std::size_t>(options.ranks_per_node), "rank"));
  Rows shown = predictions.rows;
  for (std::size_t i = 0; i < shown.size(); ++i) shown[i].set("name", predictions.names[i]);
  (options.sum ? print_sums : print_allreduce)(shown);
  fmt::print("\n{}\n", conclusion);
  if (!options.sum) fmt::print("These are prices only; what compressing does to accuracy: docs/compressors.md\n");
  if (options.json.empty()) return;
  JsonValue file{{"machine", found.origin}, {"verdict", conclusion}, {"predictions", list_of(predictions.rows)}};
  if (options.sum) file.set("chosen", predictions.chosen);
  write_json(file, options.json);
}

}  // namespace

void add_predict(Command& app) {
  auto [command, options] =
      app.add("predict", "Predict the time of every algorithm of allreduce, or of sparse sums, on a machine, by formula", run);
  command.option("--machine", options.machine, "machine file of `weir calibrate`; default: the one that Weir finds for this host");
  command.option(
      "--network", options.network,
      "rate of a node in each direction, and latency of a message one way, such as 25Gbit,5us; replaces what the machine's "
      "file has for the network between nodes");
  command.option("--count", options.count, "elements of the gradient, or of the array to be summed")
      .between(std::int64_t{1}, most_of_sum);
  command.option("--density", options.density, "share of entries that sparse algorithms deliver, or that each rank gives to a sum")
      .between(1e-9, 1.0);
  command.option("--nodes", options.nodes, "number of nodes").between(1, 65536);
  command.option("--ranks-per-node", options.ranks_per_node, "ranks on each node").between(1, 1024);
  const Option sum = command.flag("--sum", options.sum, "predict exact sparse sums, beside the fastest dense allreduce");
  add_named(command, "--type", options.type, "type of the elements of a sum").needs(sum);
  command
      .option("--compressor", options.compressors,
              "compressors to predict, each with every algorithm that carries it; none is always among them")
      .check([](const std::string& name) {
        return name.find('|') == std::string::npos ? "" : "'" + name + "': give names separated by spaces or commas, not by |";
      })
      .one_of(names_in(compress::compressor_registry(), {"all", "none"}))
      .delimiter(',')
      .excludes(sum);
  add_compressor_parameters(command, options.parameters);
  add_named(command, "--wire", options.wire, "format of indices in messages").excludes(sum);
  add_named(command, "--values", options.values, "type of values in messages").excludes(sum);
  command.option("--json", options.json, "also write the predictions to this file");
  command.examples({"weir predict --nodes 16 --network 25Gbit,5us", "weir predict --nodes 16 --network 1Gbit,50us --compressor all",
                    "weir predict --sum --density 0.001 --nodes 16 --ranks-per-node 4 --network 25Gbit,5us"});
}

}  // namespace weir::cli
