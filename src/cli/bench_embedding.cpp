// weir bench embedding: compares the exchanges of an embedding table with each other and with their volume, and measures what share
// of the gradients is urgent, and how long training stalls. Start it with mpirun.
#include "cli/bench_embedding.hpp"

#include <fmt/core.h>
#include <weir/mpi.h>

#include <memory>

#include "base/json.hpp"
#include "cli/bench_input.hpp"
#include "cli/commands.hpp"
#include "cli/mpi_start.hpp"
#include "cli/named_option.hpp"
#include "cli/report.hpp"

namespace weir::cli {
namespace {

struct Results {
  std::vector<ExchangeResult> exchanges;
  SparsityResult sparsity;
  std::vector<StallResult> stalls;
  double compute_ms = 0;
};

EmbeddingInput make_input(const EmbeddingOptions& options, const Communicator& comm) {
  const BatchShape shape{options.config.rows, options.config.largest_batch, options.warmup + options.iterations + 1};
  return {options.text.empty() ? zipf_batches(shape, comm.rank()) : text_batches(options.text, shape, comm.rank(), comm.size()),
          std::move(make_gradients(shape.tokens * options.config.width, comm.rank(), 1)[0])};
}

/// Puts `columns` first, because all others are compared with it.
std::vector<std::string> order_of(const std::vector<std::string>& exchanges) {
  std::vector<std::string> names = {"columns"};
  for (const std::string& name : exchanges) {
    if (name != "columns") names.push_back(name);
  }
  return names;
}

Results measure(const EmbeddingOptions& options, const Communicator& comm) {
  const EmbeddingInput input = make_input(options, comm);
  Results results;
  for (const std::string& name : order_of(options.exchanges))
    results.exchanges.push_back(measure_exchange(comm, options, input, name));
  results.sparsity = measure_sparsity(comm, options, input);
  results.compute_ms = options.compute_ms.value_or(results.exchanges[0].step_ms);
  results.stalls = measure_stalls(comm, options, input, results.compute_ms);
  return results;
}

void print(const EmbeddingOptions& options, const Results& results, int ranks) {
  fmt::print("{} x {}, {} tokens a rank, {} ranks, ids: {}\n\n", options.config.rows, options.config.width,
             options.config.largest_batch, ranks, options.text.empty() ? "Zipf" : options.text);
  print_exchanges(results.exchanges);
  print_sparsity(results.sparsity);
  print_stalls(results.stalls, results.compute_ms, options.dense_count);
}

void write(const EmbeddingOptions& options, const Results& results, int ranks) {
  JsonValue list = JsonValue::array();
  const auto append = [&](JsonValue row) {
    row.set("ranks", ranks);
    row.set("rows", options.config.rows);
    row.set("width", options.config.width);
    row.set("tokens", options.config.largest_batch);
    row.set("ids", results.sparsity.ids);
    list.push_back(std::move(row));
  };
  for (const ExchangeResult& r : results.exchanges) append(to_json(r, results.exchanges[0]));
  append(to_json(results.sparsity));
  for (const StallResult& r : results.stalls) append(to_json(r, results.stalls, results.compute_ms));
  write_json(list, options.json);
}

void run(const EmbeddingOptions& options) {
  start_mpi();
  const Communicator comm(MPI_COMM_WORLD);
  if (comm.rank() == 0) require_writable(options.json);
  const Results results = measure(options, comm);
  if (comm.rank() != 0) return;
  print(options, results, comm.size());
  if (!options.json.empty()) write(options, results, comm.size());
}

}  // namespace

void add_bench_embedding(Command& bench) {
  auto options = std::make_shared<EmbeddingOptions>();
  Command command = bench.add(
      "embedding", "Measure embedding tables: exchanges, gradients in messages, and the stall of training; start with mpirun");
  command.footer(
      "A step looks up vectors, computes forward and backward, and updates the table. "
      "The forward pass needs the dense block at half its time; the backward pass starts to exchange the block at half its time. "
      "Computing is sleep. All other time of a step is stall. "
      "The scheme fifo has no priorities and waits for updates; horizontal has priorities; 2d has priorities and prefetch.");
  const auto add_positive = [&](const char* name, std::int64_t& value, std::int64_t most, const char* text) {
    command.option(name, value, text).between(std::int64_t{1}, most);
  };
  EmbeddingConfig& config = options->config;
  add_positive("--rows", config.rows, 0xffffffff, "rows of the table");
  add_positive("--width", config.width, std::int64_t{1} << 20, "values of a row");
  add_positive("--tokens", config.largest_batch, 0x7fffffff, "ids that a rank looks up in a step");
  std::vector<std::string> names;
  for (const ExchangeInfo& exchange : exchanges()) names.emplace_back(exchange.name);
  options->exchanges = names;
  command.option("--exchange", options->exchanges, "exchanges to measure, all by default; columns is always measured")
      .one_of(names)
      .delimiter(',');
  add_named(command, "--values", config.wire_values, "type of vectors and gradients in messages");
  add_named(command, "--routing", config.routing, "route of messages between nodes");
  add_named(command, "--optimizer", config.optimizer, "optimizer of the rows");
  command.option("--text", options->text, "plain text whose words are the ids; without it, ids follow Zipf's law").existing_file();
  command
      .option(
          "--compute-ms", options->compute_ms,
          "computing in the forward pass, and again in the backward pass, in milliseconds; default: the time of a step of columns")
      .between(0.0, 1e6);
  command.option("--dense-count", options->dense_count, "elements of the dense block; 0: no block").between(0, 2147483647);
  command.option("--iterations", options->iterations, "measured steps").positive();
  command.option("--warmup", options->warmup, "steps before the measured ones").non_negative();
  command.option("--json", options->json, "also write the rows to this file, on rank 0");
  command.examples({"mpirun -n 4 weir bench embedding"});
  command.action([options] { run(*options); });
}

}  // namespace weir::cli
