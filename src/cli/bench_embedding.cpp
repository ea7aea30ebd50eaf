// weir bench embedding: compares the exchanges of an embedding table with each other and with their volume, and measures what share
// of the gradients is urgent, and how long training stalls. Start it with mpirun.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <numeric>
#include <optional>
#include <thread>
#include <weir/embedding.hpp>
#include <weir/schedule.hpp>

#include "cli/bench_input.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/embedding_batches.hpp"
#include "cli/named_options.hpp"

namespace weir::cli {
namespace {

struct Options {
  EmbeddingConfig config{.rows = 32000, .width = 512, .largest_batch = 4096};
  std::vector<std::string> exchanges;
  std::string text, json;
  std::int64_t dense_count = 1000000;
  std::optional<double> compute_ms;
  int iterations = 20, warmup = 3;
};

/// Steps 0 .. warmup - 1 are not measured. There is one batch more than steps, for the last step's prefetch.
struct Input {
  IdBatches batches;
  std::vector<float> gradients;  ///< tokens x width, the same in every step

  [[nodiscard]] std::span<const std::int64_t> ids(int step) const { return batches[static_cast<std::size_t>(step)]; }
};

// Required ratios of the other exchanges' times to that of columns: 4 one-rank nodes, 1 Gbit/s; for allgather also 8 nodes.
constexpr double dense_bound = 5, allgather_bound_4 = 1.5, allgather_bound_8 = 2.5;
// Upper bound of the volume of columns.
constexpr double volume_bound = 1.05;

Input make_input(const Options& options, const Communicator& comm) {
  const BatchShape shape{options.config.rows, options.config.largest_batch, options.warmup + options.iterations + 1};
  return {options.text.empty() ? zipf_batches(shape, comm.rank()) : text_batches(options.text, shape, comm.rank(), comm.size()),
          std::move(make_gradients(shape.tokens * options.config.width, comm.rank(), 1)[0])};
}

/// Measures lookup and update of one exchange, and waits for every operation. Times are the slowest rank's, median over steps.
/// Bytes are the largest that a rank sends in a step, mean over steps. Volume: bytes of vectors and gradients, without and with
/// ids, divided by 2 (P - 1) / P x the distinct rows of the batch; means over ranks. Returns the row without the members that
/// follow from other exchanges.
JsonValue measure_exchange(const Communicator& comm, const Options& options, const Input& input, const std::string& exchange) {
  EmbeddingConfig config = options.config;
  config.exchange = exchange;
  EmbeddingTable table(comm, config);
  std::vector<float> vectors(input.gradients.size());
  Samples times, most, sums;  // most, sums: over ranks
  Progress progress(comm.rank() == 0, exchange, options.warmup + options.iterations);
  for (int t = 0; t < options.warmup + options.iterations; ++t) {
    MPI_Barrier(MPI_COMM_WORLD);
    const std::int64_t allocations = allocations_so_far();
    const double lookup_ms = milliseconds_of([&] { table.lookup(input.ids(t), vectors).wait(); });
    const double update_ms = milliseconds_of([&] { table.update(input.gradients).wait(); });
    const std::int64_t allocated = allocations_so_far() - allocations;
    progress.at(t + 1);
    if (t < options.warmup) continue;
    add(times, "lookup", lookup_ms);
    add(times, "update", update_ms);
    add(times, "step", lookup_ms + update_ms);
    const EmbeddingStatistics& s = table.statistics();
    add(most, "ids", s.id_bytes_sent);
    add(most, "vectors", s.lookup_bytes_sent);
    add(most, "gradients", s.gradient_bytes_sent);
    add(most, "all", s.id_bytes_sent + s.lookup_bytes_sent + s.gradient_bytes_sent + s.control_bytes_sent);
    add(most, "allocations", allocated);
    add(sums, "ids", s.id_bytes_sent);
    add(sums, "vectors and gradients", s.lookup_bytes_sent + s.gradient_bytes_sent);
    add(sums, "distinct elements", s.distinct_rows * config.width);
  }
  over_ranks(times, MPI_MAX);
  over_ranks(most, MPI_MAX);
  over_ranks(sums, MPI_SUM);
  const auto total = [&](std::string_view figure) { return std::accumulate(sums[figure].begin(), sums[figure].end(), 0.0); };
  const double value_bytes = config.wire_values == WireValues::native ? 4 : 2;
  const double needed = 2.0 * (comm.size() - 1) / comm.size() * total("distinct elements") * value_bytes;
  const double sent = total("vectors and gradients"), ids = total("ids");
  return {{"benchmark", "embedding_exchange"},
          {"exchange", exchange},
          {"median_ms", median(times["step"])},
          {"lookup_ms", median(times["lookup"])},
          {"update_ms", median(times["update"])},
          {"baseline", "columns"},
          {"baseline_ms", 0.0},
          {"ratio", 0.0},
          {"id_bytes", mean(most["ids"])},
          {"vector_bytes", mean(most["vectors"])},
          {"gradient_bytes", mean(most["gradients"])},
          {"total_bytes", mean(most["all"])},
          {"volume", needed > 0 ? sent / needed : 0},
          {"volume_with_ids", needed > 0 ? (sent + ids) / needed : 0},
          {"volume_bound", volume_bound},
          {"allocations_per_iteration", mean(most["allocations"])}};
}

Rows measure_exchanges(const Communicator& comm, const Options& options, const Input& input) {
  std::vector<std::string> names = options.exchanges;
  std::erase(names, "columns");
  names.insert(names.begin(), "columns");  // all others are compared with it
  Rows rows;
  for (const std::string& name : names) rows.push_back(measure_exchange(comm, options, input, name));
  const double columns_ms = number_of(rows[0], "median_ms");
  for (JsonValue& row : rows) {
    row.set("baseline_ms", columns_ms);
    row.set("ratio", number_of(row, "median_ms") / columns_ms);
  }
  return rows;
}

void print_exchanges(Rows rows) {
  for (JsonValue& row : rows) row.set("speed", fmt::format("{:.2f} x faster", number_of(row, "ratio")));
  fmt::print("Lookup and update; every operation is waited for. bytes: the most that a rank sends in a step\n");
  print_table(rows,
              "{exchange:<16} {median_ms:>10.3f} {lookup_ms:>10.3f} {update_ms:>10.3f} {speed:>16} {id_bytes:>10.0f} "
              "{vector_bytes:>12.0f} {gradient_bytes:>12.0f} {total_bytes:>12.0f} {volume:>8.3f} {volume_with_ids:>9.3f} "
              "{allocations_per_iteration:>7.3g}",
              {"exchange", "step ms", "lookup ms", "update ms", "columns is", "id bytes", "vectors", "gradients", "total", "volume",
               "with ids", "allocs"});
  fmt::print(
      "volume: bytes of vectors and gradients, relative to 2 (P - 1) / P x the distinct rows of the batch; mean over ranks\n"
      "bounds for nodes of one rank at 1 Gbit/s: dense_allreduce / columns at least {} on 4 nodes; allgather / columns at\n"
      "least {} on 4 nodes, {} on 8\n"
      "bounds on any network: volume of columns at most {}, also with ids; no allocations\n",
      dense_bound, allgather_bound_4, allgather_bound_8, volume_bound);
}

/// Returns a row of a table of sparsity: megabytes of gradients, and percentages.
JsonValue sparsity_row(double original_mb, double coalesced_mb, double prior_mb, double coalescing_saves, double prior_saves) {
  return {{"benchmark", "embedding_sparsity"},
          {"original_mb", original_mb},
          {"coalesced_mb", coalesced_mb},
          {"prior_mb", prior_mb},
          {"coalescing_saves_percent", coalescing_saves},
          {"prior_saves_percent", prior_saves}};
}

/// Measures what share of a batch's gradients must travel, and what share must travel soon (EmbRace table 3): sizes of a rank's
/// gradients in a step, mean over ranks and steps, in 1e6 bytes of float32. original: of all tokens; coalesced: of distinct rows;
/// prior: of those that the next batch of any rank needs. Vectors have as many bytes as coalesced gradients. If only the network
/// limits training, and nothing else travels, scheduled training stalls for the urgent share of the stall without scheduling.
JsonValue measure_sparsity(const Communicator& comm, const Options& options, const Input& input) {
  // The rows that travel do not depend on their width.
  EmbeddingTable table(comm, {.rows = options.config.rows, .width = 1, .largest_batch = options.config.largest_batch});
  std::vector<float> vectors(static_cast<std::size_t>(options.config.largest_batch));
  std::array<double, 3> rows{};
  const int steps = options.iterations;
  Progress progress(comm.rank() == 0, "sparsity", steps);
  for (int t = options.warmup; t < options.warmup + steps; ++t) {
    table.lookup(input.ids(t), vectors).wait();
    table.prefetch(input.ids(t + 1));
    table.update(vectors).wait();
    const EmbeddingStatistics& s = table.statistics();
    rows[0] += static_cast<double>(s.tokens);
    rows[1] += static_cast<double>(s.distinct_rows);
    rows[2] += static_cast<double>(s.prior_rows);
    progress.at(t + 1 - options.warmup);
  }
  over_ranks(rows, MPI_SUM);
  const double mb = sizeof(float) * static_cast<double>(options.config.width) / 1e6 / steps / comm.size();
  const double original = rows[0] * mb, coalesced = rows[1] * mb, prior = rows[2] * mb;
  const auto saved = [](double before, double after) { return before > 0 ? 100 * (1 - after / before) : 0; };
  JsonValue row = sparsity_row(original, coalesced, prior, saved(original, coalesced), saved(coalesced, prior));
  row.set("urgent_share", coalesced > 0 ? (coalesced + prior) / (2 * coalesced) : 0);
  return row;
}

void print_sparsity(const JsonValue& measured, std::string_view ids) {
  Rows rows = {measured};
  rows[0].set("ids", fmt::format("{} (these ids)", ids));
  const auto add_of_paper = [&](std::string_view of, const JsonValue& row) {
    rows.push_back(row);
    rows.back().set("ids", fmt::format("{} (EmbRace table 3)", of));
  };
  add_of_paper("LM", sparsity_row(8.7, 6.9, 2.6, 20.4, 61.8));  // percentages: the paper's section 4.2.2
  add_of_paper("GNMT-8", sparsity_row(26.0, 12.2, 5.8, 53.1, 52.5));
  add_of_paper("Transformer", sparsity_row(35.2, 16.6, 8.9, 52.9, 46.3));
  add_of_paper("BERT-base", sparsity_row(36.0, 5.5, 3.2, 84.7, 41.9));
  fmt::print("\ngradients of a rank in a step, MB\n");
  print_table(rows,
              "{ids:<28} {original_mb:>12.3f} {coalesced_mb:>12.3f} {prior_mb:>12.3f} {coalescing_saves_percent:>18.1f} "
              "{prior_saves_percent:>18.1f}",
              {"ids", "original", "coalesced", "prior", "coalescing saves %", "prior saves %"});
  fmt::print("{:.1f} % of a step's vectors and gradients must arrive before the next forward pass\n",
             100 * number_of(measured, "urgent_share"));
}

// Upper bound of the scheduled training's stall, as a share of the stall without scheduling.
constexpr double stall_bound = 0.7;

/// Operations in order, blocks by priority, or blocks and rows by priority.
struct Scheme {
  std::string_view name;
  bool priorities, prefetch;
};
constexpr std::array schemes = {Scheme{"fifo", false, false}, Scheme{"horizontal", true, false}, Scheme{"2d", true, true}};

/// Milliseconds of one step that are not computing, by part.
using Stall = std::map<std::string_view, double>;

EmbeddingConfig table_config(EmbeddingConfig config, const Scheme& scheme) {
  if (!scheme.priorities) config.priority = config.delayed_priority = 0;
  return config;
}

/// The training of one rank. Steps have one table and one dense block, and their computing is sleep.
class Training {
 public:
  Training(const Communicator& comm, const Options& options, const Input& input, const Scheme& scheme, double compute_ms)
      : input_(input),
        scheme_(scheme),
        compute_ms_(compute_ms),
        table_(comm, table_config(options.config, scheme)),
        vectors_(input.gradients.size()) {
    if (options.dense_count == 0) return;
    block_.emplace(comm, AllreduceConfig{.count = options.dense_count,
                                         .algorithm = "dense_ring",
                                         .priority = scheme.priorities ? schedule_.priority("dense") : 0});
    block_gradient_ = std::move(make_gradients(options.dense_count, comm.rank(), 1)[0]);
  }
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  Stall step(int t) {
    stall_ = {};
    slept_ = 0;
    const double total = milliseconds_of([&] {
      stall_["lookup"] = milliseconds_of([&] {
        table_.lookup(input_.ids(t), vectors_).wait();
        // As early as allowed: ids then travel while this rank computes, and the update does not wait for them.
        if (scheme_.prefetch) table_.prefetch(input_.ids(t + 1));
      });
      compute_half_a_pass();
      stall_["block"] = milliseconds_of([&] { schedule_.wait("dense"); });
      compute_half_a_pass();
      compute_half_a_pass();  // backward
      if (block_) schedule_.started("dense", block_->start(block_gradient_));
      compute_half_a_pass();
      stall_["update"] = milliseconds_of([&] {
        updating_ = table_.update(input_.gradients);
        if (!scheme_.priorities) updating_->wait();
      });
    });
    stall_["total"] = total - slept_;
    return stall_;
  }
  void finish() {
    schedule_.wait_all();
    if (updating_) updating_->wait();
  }

 private:
  /// Sleeps, and makes progress in between. Only the sleep counts as computing.
  void compute_half_a_pass() {
    for (double left = compute_ms_ / 2; left > 0;) {
      const double slept =
          milliseconds_of([&] { std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(std::min(left, 1.0))); });
      slept_ += slept;
      left -= slept;
      stall_["progress"] += milliseconds_of([&] {
        schedule_.test("dense");
        if (updating_) updating_->test();
      });
    }
  }

  const Input& input_;
  const Scheme& scheme_;
  double compute_ms_;
  StepSchedule schedule_{{"dense"}};
  EmbeddingTable table_;
  std::vector<float> vectors_;
  std::optional<AllreducePlan> block_;
  std::vector<float> block_gradient_;
  std::optional<Operation> updating_;
  Stall stall_;
  double slept_ = 0;
};

/// Measures the time in a training step that is not computing (EmbRace section 5.4), in ms: the slowest rank's, median over steps.
/// `compute_ms` is for the forward pass, and again for the backward pass. Returns the row without its ratio.
JsonValue measure_stall(const Communicator& comm, const Options& options, const Input& input, const Scheme& scheme,
                        double compute_ms) {
  Training training(comm, options, input, scheme, compute_ms);
  Samples samples;
  Progress progress(comm.rank() == 0, fmt::format("training, {}", scheme.name), options.warmup + options.iterations);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int t = 0; t < options.warmup + options.iterations; ++t) {
    const Stall stall = training.step(t);
    progress.at(t + 1);
    if (t < options.warmup) continue;
    for (const auto& [part, ms] : stall) add(samples, part, ms);
  }
  training.finish();
  over_ranks(samples, MPI_MAX);
  return {{"benchmark", "embedding_stall"},
          {"scheme", scheme.name},
          {"compute_ms", compute_ms},
          {"median_ms", median(samples["total"])},
          {"lookup_ms", median(samples["lookup"])},
          {"block_ms", median(samples["block"])},
          {"update_ms", median(samples["update"])},
          {"progress_ms", median(samples["progress"])}};  // calls of Operation::test between computing
}

Rows measure_stalls(const Communicator& comm, const Options& options, const Input& input, double compute_ms) {
  Rows rows;
  for (const Scheme& scheme : schemes) rows.push_back(measure_stall(comm, options, input, scheme, compute_ms));
  const double scheduled = number_of(rows.back(), "median_ms");
  for (JsonValue& row : rows) {
    row.set("scheduled_ratio", scheduled / number_of(row, "median_ms"));
    row.set("bound", stall_bound);
  }
  return rows;
}

void print_stalls(const Rows& rows, double compute_ms, std::int64_t dense_count) {
  fmt::print("\nStall of a training step with {:.3f} ms of computing forward, the same backward, and a dense block of {} floats\n",
             compute_ms, dense_count);
  print_table(rows,
              "{scheme:<12} {median_ms:>10.3f} {lookup_ms:>10.3f} {block_ms:>10.3f} {update_ms:>10.3f} {progress_ms:>12.3f} "
              "{scheduled_ratio:>12.3f}",
              {"scheme", "stall ms", "lookup ms", "block ms", "update ms", "progress ms", "2d / this"});
  fmt::print("bound for 4 nodes of one rank at 1 Gbit/s: the stall of 2d is at most {} of that of any other scheme\n", stall_bound);
}

void run(const Options& options) {
  const Communicator comm = start_ranks(options.json);
  const Input input = make_input(options, comm);
  const std::string_view ids = options.text.empty() ? "Zipf" : "text";
  Rows rows = measure_exchanges(comm, options, input);
  const JsonValue sparsity = measure_sparsity(comm, options, input);
  const double compute_ms = options.compute_ms.value_or(number_of(rows[0], "median_ms"));
  const Rows stalls = measure_stalls(comm, options, input, compute_ms);
  if (comm.rank() != 0) return;
  fmt::print("{} x {}, {} tokens a rank, {} ranks, ids: {}\n\n", options.config.rows, options.config.width,
             options.config.largest_batch, comm.size(), options.text.empty() ? "Zipf" : options.text);
  print_exchanges(rows);
  print_sparsity(sparsity, ids);
  print_stalls(stalls, compute_ms, options.dense_count);
  rows.push_back(sparsity);
  rows.insert(rows.end(), stalls.begin(), stalls.end());
  for (JsonValue& row : rows) {
    row.set("ranks", comm.size());
    row.set("rows", options.config.rows);
    row.set("width", options.config.width);
    row.set("tokens", options.config.largest_batch);
    row.set("ids", ids);
  }
  write_rows(rows, options.json);
}

}  // namespace

void add_bench_embedding(Command& bench) {
  auto [command, options] = bench.add(
      "embedding", "Measure embedding tables: exchanges, gradients in messages, and the stall of training; start with mpirun", run);
  command.footer(
      "A step looks up vectors, computes forward and backward, and updates the table. "
      "The forward pass needs the dense block at half its time; the backward pass starts to exchange the block at half its time. "
      "Computing is sleep. All other time of a step is stall. "
      "The scheme fifo has no priorities and waits for updates; horizontal has priorities; 2d has priorities and prefetch.");
  EmbeddingConfig& config = options.config;
  command.option("--rows", config.rows, "rows of the table").between(std::int64_t{1}, std::int64_t{0xffffffff});
  command.option("--width", config.width, "values of a row").between(std::int64_t{1}, std::int64_t{1} << 20);
  command.option("--tokens", config.largest_batch, "ids that a rank looks up in a step").between(1, 0x7fffffff);
  options.exchanges = names_in(exchanges());
  command.option("--exchange", options.exchanges, "exchanges to measure, all by default; columns is always measured")
      .one_of(options.exchanges)
      .delimiter(',');
  add_named(command, "--values", config.wire_values, "type of vectors and gradients in messages");
  add_named(command, "--routing", config.routing, "route of messages between nodes");
  add_named(command, "--optimizer", config.optimizer, "optimizer of the rows");
  command.option("--text", options.text, "plain text whose words are the ids; without it, ids follow Zipf's law").existing_file();
  command
      .option(
          "--compute-ms", options.compute_ms,
          "computing in the forward pass, and again in the backward pass, in milliseconds; default: the time of a step of columns")
      .between(0.0, 1e6);
  command.option("--dense-count", options.dense_count, "elements of the dense block; 0: no block").between(0, 2147483647);
  command.option("--iterations", options.iterations, "measured steps").positive();
  command.option("--warmup", options.warmup, "steps before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
  command.examples({"mpirun -n 4 weir bench embedding"});
}

}  // namespace weir::cli
