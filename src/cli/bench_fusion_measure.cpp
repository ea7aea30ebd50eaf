// Measures the schemes of tensor fusion, prints the results and reads the options, for MPI and for simulated machines.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "base/config_check.hpp"
#include "cli/bench_fusion.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/commands.hpp"
#include "cli/named_options.hpp"
#include "fusion/scheme.hpp"

namespace weir::cli {
namespace {

/// One more "scheme": all tensors dense, in buffers of the given size.
constexpr std::string_view dense_scheme = "dense";

// Goals for ratios of step times: `ahead` to inter; inter to inter + intra, for at least one model; the better of `none` and
// `behind` to the default scheme, for every model.
constexpr double inter_goal = 1.1, intra_goal = 1.3, better_goal = 1.2;

/// Returns the schemes of the build, and dense_scheme.
std::vector<std::string> fusion_schemes() {
  std::vector<std::string> names;
  for (const fusion::SchemeRow* row : fusion::scheme_registry()) names.emplace_back(name_of(row->scheme));
  names.emplace_back(dense_scheme);
  return names;
}

FusionConfig config_of(const FusionOptions& options, const std::string& scheme) {
  const auto& names = names_of<FusionScheme>;
  FusionConfig config = options.config;
  config.scheme = scheme == dense_scheme ? FusionScheme::behind
                                         : static_cast<FusionScheme>(std::find(names.begin(), names.end(), scheme) - names.begin());
  const double bytes = options.buffer_mib * 1048576 / static_cast<double>(options.shrink);
  config.buffer_bytes = std::max<std::int64_t>(1, std::llround(bytes));
  config.name = scheme;
  return config;
}

/// Returns the milliseconds of a step's computing.
double compute_ms(const std::vector<double>& forward) { return 3 * std::accumulate(forward.begin(), forward.end(), 0.0) * 1e3; }

/// One scheme and its samples.
class Subject {
 public:
  Subject(const Communicator& comm, const FusionOptions& options, const FusionModel& model, const std::string& scheme,
          const std::vector<double>& forward, const FusionHost& host)
      : dense_(scheme == dense_scheme),
        compute_ms_(compute_ms(forward)),
        training_(comm, config_of(options, scheme), model, dense_, forward, host.sleep, options.poll_us * 1e-6) {}

  /// Returns whether the scheme takes part in an iteration. Dense tensors take many times as long as sparse ones, so they run in
  /// every fifth iteration only. All other schemes make the same number of steps, because residuals grow with steps, and exchanges
  /// with residuals.
  [[nodiscard]] bool has_turn(int iteration, const FusionOptions& options) const {
    const int measured = iteration - options.warmup;
    return !dense_ || iteration == 0 || (measured >= 0 && measured % 5 == 0);
  }

  void iterate(MadeUpGradients& gradients, const FusionHost& host, bool counts) {
    gradients.make(iteration_++);
    host.start_together();
    const double seconds = training_.step(gradients);
    if (!counts) return;
    const FusionStatistics& s = training_.fused().statistics();
    add(samples_, "step", seconds);
    add(samples_, "select", s.seconds_select);
    add(samples_, "waited", s.seconds_waited);
    add(samples_, "startups", s.exchanges);
    add(samples_, "sent", s.payload_bytes_sent + s.control_bytes_sent);
    add(samples_, "received", s.payload_bytes_received + s.control_bytes_received);
    add(samples_, "control", s.control_bytes_sent);
    add(samples_, "missing", s.tensors_missing);
  }

  /// Collective. Adds the figures to `row`, which has what all schemes share. Milliseconds and megabytes are maxima over ranks.
  JsonValue result(JsonValue row, double card_rate) {
    over_ranks(samples_, MPI_MAX);
    const FusionConfig& config = training_.fused().config();
    const auto usual = [&](std::string_view figure) { return median(samples_[figure]); };
    const double step_ms = usual("step") * 1e3, sent_mb = usual("sent") * 1e-6, received_mb = usual("received") * 1e-6;
    // Lower bound of a step: computing, or sending these bytes through the network card.
    const double limit_ms = std::max(compute_ms_, std::max(sent_mb, received_mb) * 1e9 / card_rate);
    row.set("scheme", config.name);
    row.set("algorithm", dense_ ? "" : config.algorithm);
    row.set("median_ms", step_ms);
    row.set("min_ms", minimum(samples_["step"]) * 1e3);
    row.set("exposed_ms", step_ms - compute_ms_);
    row.set("select_ms", usual("select") * 1e3);
    row.set("waited_ms", usual("waited") * 1e3);
    row.set("startups", usual("startups"));
    row.set("sent_mb", sent_mb);
    row.set("received_mb", received_mb);
    row.set("control_mb", usual("control") * 1e-6);
    row.set("tensors_missing", usual("missing"));
    row.set("regroupings", training_.fused().statistics().regroupings);
    row.set("memory_bytes", training_.fused().memory_bytes());
    row.set("limit_ms", limit_ms);
    row.set("limit_ratio", step_ms / limit_ms);
    return row;
  }

 private:
  bool dense_;
  double compute_ms_;
  FusionTraining training_;
  std::int64_t iteration_ = 0;
  Samples samples_;
};

/// Returns the bytes per second that each rank can send to another node while all ranks do. On one node, ranks send to each other.
double measure_card(const Communicator& comm) {
  constexpr int bytes = 4 << 20, repetitions = 3;
  if (comm.size() == 1) return 1e15;
  const int in_node = static_cast<int>(over_ranks(static_cast<std::int64_t>(comm.group(Level::node).size()), MPI_MAX));
  const int shift = in_node < comm.size() ? in_node : 1;
  const int to = (comm.rank() + shift) % comm.size(), from = (comm.rank() - shift + comm.size()) % comm.size();
  std::vector<std::byte> out(bytes), in(bytes);
  std::vector<double> times;
  for (int i = 0; i <= repetitions; ++i) {
    const double ms = milliseconds([&] {
      MPI_Sendrecv(out.data(), bytes, MPI_BYTE, to, 0, in.data(), bytes, MPI_BYTE, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
    if (i > 0) times.push_back(ms);  // the first round opens connections
  }
  return bytes / (minimum(times) * 1e-3);
}

/// Returns the step time of the fastest measured scheme in `schemes`, or NaN if none was measured.
double fastest(const Rows& rows, std::initializer_list<std::string_view> schemes) {
  double fastest = std::numeric_limits<double>::quiet_NaN();
  for (const JsonValue& row : rows) {
    const bool meant = std::find(schemes.begin(), schemes.end(), row.view().at("scheme").string()) != schemes.end();
    const double step_ms = number_of(row, "median_ms");
    if (meant && !(step_ms >= fastest)) fastest = step_ms;
  }
  return fastest;
}

/// `card_rate`: the result of measure_card().
Rows measure(const Communicator& comm, const FusionOptions& options, const FusionModel& model, int batch,
             const std::vector<double>& forward, const FusionHost& host, double card_rate) {
  MadeUpGradients gradients(model, comm.rank());
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const std::string& scheme : options.schemes == std::vector<std::string>{"all"} ? fusion_schemes() : options.schemes)
    subjects.push_back(std::make_unique<Subject>(comm, options, model, scheme, forward, host));
  const int rounds = options.warmup + options.iterations;
  Progress progress(comm.rank() == 0, model.name, rounds);
  in_turns(subjects, rounds, progress, [&](const auto& subject, int t) {
    if (subject->has_turn(t, options)) subject->iterate(gradients, host, t >= options.warmup);
  });
  const JsonValue shared = {{"benchmark", "fusion"},
                            {"model", model.name},
                            {"scheme", ""},
                            {"algorithm", ""},
                            {"threshold", options.config.threshold},
                            {"ranks", comm.size()},
                            {"elements", model.elements()},
                            {"tensors", model.tensors.size()},
                            {"shrink", options.shrink},
                            {"density", options.config.density},
                            {"buffer_mib", options.buffer_mib},
                            {"batch", batch},
                            {"gflops", options.gflops},
                            {"compute_ms", compute_ms(forward)},
                            {"card_mb_per_s", card_rate * 1e-6}};
  Rows rows;
  for (const auto& subject : subjects) rows.push_back(subject->result(shared, card_rate));
  const double none = fastest(rows, {"none"}), better = fastest(rows, {"none", "behind"});
  for (JsonValue& row : rows) {
    const double step_ms = number_of(row, "median_ms");
    if (!std::isnan(none)) row.set("none_ratio", none / step_ms);
    if (!std::isnan(better)) row.set("best_of_none_and_behind_ratio", better / step_ms);
  }
  return rows;
}

void print_goals(const Rows& rows) {
  const double inter = fastest(rows, {"ahead_inter"}), intra = fastest(rows, {"ahead_inter_intra"});
  const std::string_view usual = name_of(FusionConfig{}.scheme);
  const auto print = [](std::string_view what, double ratio, const std::string& goal) {
    if (!std::isnan(ratio)) fmt::print("{}: {:.3f} times as fast (Weir's goal: {})\n", what, ratio, goal);
  };
  print("ahead_inter to ahead", fastest(rows, {"ahead"}) / inter, fmt::format("{}", inter_goal));
  print("ahead_inter_intra to ahead_inter", inter / intra, fmt::format("{} for some model", intra_goal));
  print(fmt::format("{} to the better of none and behind", usual), fastest(rows, {"none", "behind"}) / fastest(rows, {usual}),
        fmt::format("{}", better_goal));
  print(fmt::format("{} to none", usual), fastest(rows, {"none"}) / fastest(rows, {usual}), "at least 1");
}

void print(const Rows& rows, const FusionModel& model, int batch, const FusionOptions& options, int ranks) {
  const JsonView first = rows.front().view();
  fmt::print("{}: {} tensors, {} elements", model.name, model.tensors.size(), model.elements());
  if (options.shrink > 1) fmt::print(" (shrunk by {})", options.shrink);
  fmt::print(", {} ranks; {:.3f} ms of computing: {} x {} at {} GFLOP/s", ranks, first.at("compute_ms").number(), batch,
             model.sample, options.gflops);
  if (ranks > 1) fmt::print("; card: {:.1f} MB/s", first.at("card_mb_per_s").number());
  fmt::print("\n");
  print_table(rows,
              "{scheme:<18} {algorithm:<18} {median_ms:>10.3f} {min_ms:>10.3f} {exposed_ms:>10.3f} {select_ms:>10.3f} "
              "{waited_ms:>10.3f} {startups:>8.5g} {sent_mb:>10.3f} {received_mb:>10.3f} {tensors_missing:>8.5g} "
              "{none_ratio:>8.3f} {best_of_none_and_behind_ratio:>10.3f} {limit_ratio:>8.3f}",
              {"scheme", "algorithm", "step ms", "min ms", "NOCT ms", "select ms", "waited ms", "startups", "MB sent", "received",
               "missing", "x none", "x better", "/ limit"});
  print_goals(rows);
  fmt::print(
      "step: backward and forward pass. NOCT: the part of it that is not computing. select, waited: the host's time in ready(),\n"
      "and in wait() and wait_all(). Times are medians of the slowest rank. startups: buffers exchanged. missing: tensors of\n"
      "which no entry was delivered. x none, x better: times as fast as none, and as the better of none and behind. / limit:\n"
      "step relative to the longer of computing and sending these bytes through the card.\n\n");
}

}  // namespace

void bench_fusion(const Communicator& comm, const FusionOptions& options, std::vector<FusionModel> models, const FusionHost& host) {
  const double card_rate = measure_card(comm);
  Rows all;
  for (FusionModel& model : models) {
    const int batch = options.batch > 0 ? options.batch : model.batch;
    const std::vector<double> forward = forward_seconds(model, batch, options.gflops * 1e9);
    model.shrink(options.shrink);
    const Rows rows = measure(comm, options, model, batch, forward, host, card_rate);
    if (comm.rank() != 0) continue;
    print(rows, model, batch, options, comm.size());
    all.insert(all.end(), rows.begin(), rows.end());
    write_rows(all, options.json);
  }
}

void add_fusion_options(Command& command, FusionOptions& options) {
  command.footer(
      "A step is a backward pass and the next forward pass, whose layers wait for their updates. "
      "Gradients are synthetic. "
      "Computing is waiting, as a host waits for its GPU. "
      "Selection runs on the host's cores meanwhile; it lengthens a step only if nothing hides it. "
      "With --shrink S, every tensor and buffer has 1 / S of its bytes, and computing takes as long as before. "
      "On a network with 1 / S of the bandwidth, transfers then take as long as those of the whole model; startups, tensors and "
      "latencies are unchanged. "
      "Selection takes 1 / S of its time. "
      "Control messages and envelopes weigh S times as much.");
  command
      .option(
          "--model", options.models,
          "networks to measure: installed tables (resnet50, resnet152, vgg19, bert_base, gpt2_large), files of such tables, or all")
      .delimiter(',');
  std::vector<std::string> schemes = fusion_schemes();
  schemes.insert(schemes.begin(), "all");
  command.option("--scheme", options.schemes, "schemes to measure; dense sends all tensors whole, in buffers of --buffer-mib")
      .one_of(schemes)
      .delimiter(',');
  std::vector<std::string> algorithms_and_auto = {"auto"};
  for (const AlgorithmInfo& algorithm : algorithms()) {
    if (algorithm.sparse && algorithm.host_memory) algorithms_and_auto.emplace_back(algorithm.name);
  }
  FusionConfig& config = options.config;
  command.option("--algorithm", config.algorithm, "algorithm that exchanges the entries of a buffer").one_of(algorithms_and_auto);
  add_threshold(command, config.threshold, config.threshold_parameters);
  add_named(command, "--values", config.wire_values, "type of values in messages");
  command.option("--density", config.density, "share of its entries that each rank selects").between(1e-9, 1.0);
  command.option("--buffer-mib", options.buffer_mib, "size of a buffer, in MiB of gradients, before --shrink").between(1e-6, 1e6);
  command.option("--rate", options.gflops, "GFLOP/s of the GPU; the default is that of a V100 with 32-bit floats")
      .between(1e-3, 1e9);
  command.option("--batch", options.batch, "samples of a rank in a step; default: the model's")
      .between(1, 1000000)
      .without_default();
  command.option("--shrink", options.shrink, "divide the bytes of tensors and buffers by S, see below").between(1, 1000000);
  command
      .option(
          "--poll-us", options.poll_us,
          "microseconds between progress of exchanges while the host waits for gradients; 0: progress only when it hands one in")
      .between(0.0, 1e6);
  command.option("--iterations", options.iterations, "measured steps of each scheme, in turns; dense makes a fifth of them")
      .positive();
  command.option("--warmup", options.warmup, "steps before the measured ones").non_negative();
  command.option("--json", options.json, "also write the rows to this file, on rank 0");
}

}  // namespace weir::cli
