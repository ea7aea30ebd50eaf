#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

#include "base/config_check.hpp"
#include "cli/bench_fusion.hpp"
#include "cli/bench_ranks.hpp"
#include "cli/report.hpp"
#include "fusion/scheme.hpp"

namespace weir::cli {
namespace {

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

/// Figures of one iteration, in the order of storage.
enum Figure { step, select, waited, startups, sent, received, control, missing, figures };

/// One scheme and its samples.
class Subject {
 public:
  Subject(const Communicator& comm, const FusionOptions& options, const FusionModel& model, const std::string& scheme,
          const PassTimes& times, const FusionHost& host)
      : dense_(scheme == dense_scheme),
        compute_(times.seconds()),
        training_(comm, config_of(options, scheme), model, scheme == dense_scheme, times, {host.sleep, options.poll_us * 1e-6}) {}

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
    const auto add = [&](auto value) { samples_.push_back(static_cast<double>(value)); };
    for (const double time : {seconds, s.seconds_select, s.seconds_waited}) add(time);
    add(s.exchanges);
    add(s.payload_bytes_sent + s.control_bytes_sent);
    add(s.payload_bytes_received + s.control_bytes_received);
    add(s.control_bytes_sent);
    add(s.tensors_missing);
  }

  /// Collective.
  FusionResult result(double card_rate) {
    over_ranks(samples_, MPI_MAX);
    const FusionConfig& config = training_.fused().config();
    const std::vector<double> steps = column(step);
    FusionResult r{.scheme = config.name,
                   .algorithm = dense_ ? "" : config.algorithm,
                   .step_ms = median(steps) * 1e3,
                   .step_min_ms = minimum(steps) * 1e3,
                   .exposed_ms = (median(steps) - compute_) * 1e3,
                   .select_ms = median(column(select)) * 1e3,
                   .waited_ms = median(column(waited)) * 1e3,
                   .startups = median(column(startups)),
                   .sent_mb = median(column(sent)) * 1e-6,
                   .received_mb = median(column(received)) * 1e-6,
                   .control_mb = median(column(control)) * 1e-6,
                   .missing = median(column(missing)),
                   .regroupings = training_.fused().statistics().regroupings,
                   .memory_bytes = training_.fused().memory_bytes()};
    r.limit_ms = std::max(compute_ * 1e3, std::max(r.sent_mb, r.received_mb) * 1e9 / card_rate);
    return r;
  }

 private:
  [[nodiscard]] std::vector<double> column(Figure figure) const {
    std::vector<double> values;
    for (std::size_t i = figure; i < samples_.size(); i += figures) values.push_back(samples_[i]);
    return values;
  }

  bool dense_;
  double compute_;
  FusionTraining training_;
  std::int64_t iteration_ = 0;
  std::vector<double> samples_;
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

/// `card_rate`: the result of measure_card().
FusionResults measure(const Communicator& comm, const FusionOptions& options, FusionModel model, const FusionHost& host,
                      double card_rate) {
  const int batch = options.batch > 0 ? options.batch : model.batch;
  const PassTimes times = pass_times(model, batch, options.gflops * 1e9);
  model.shrink(options.shrink);
  MadeUpGradients gradients(model, comm.rank());
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const std::string& scheme : options.schemes == std::vector<std::string>{"all"} ? fusion_schemes() : options.schemes)
    subjects.push_back(std::make_unique<Subject>(comm, options, model, scheme, times, host));
  const int rounds = options.warmup + options.iterations;
  Progress progress(comm.rank() == 0, model.name, rounds);
  for (int t = 0; t < rounds; ++t) {
    // The order rotates, because the first and the last of an iteration have other neighbours.
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      Subject& subject = *subjects[(i + static_cast<std::size_t>(t)) % subjects.size()];
      if (subject.has_turn(t, options)) subject.iterate(gradients, host, t >= options.warmup);
    }
    progress.at(t + 1);
  }
  FusionResults results{std::move(model), batch, times.seconds() * 1e3, card_rate * 1e-6, {}};
  for (const auto& subject : subjects) results.schemes.push_back(subject->result(card_rate));
  return results;
}

}  // namespace

std::vector<std::string> fusion_schemes() {
  std::vector<std::string> names;
  for (const fusion::SchemeRow* row : fusion::scheme_registry()) names.emplace_back(name_of(row->scheme));
  names.emplace_back(dense_scheme);
  return names;
}

void bench_fusion(const Communicator& comm, const FusionOptions& options, std::vector<FusionModel> models, const FusionHost& host) {
  const double card_rate = measure_card(comm);
  std::vector<FusionResults> results;
  for (FusionModel& model : models) {
    results.push_back(measure(comm, options, std::move(model), host, card_rate));
    if (comm.rank() != 0) continue;
    print_fusion(results.back(), options, comm.size());
    if (!options.json.empty()) write_fusion(results, options, comm.size());
  }
}

}  // namespace weir::cli
