#include "report.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace language_model {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t bar_width = 24;

std::ofstream open_for_writing(const std::filesystem::path& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error("cannot write " + path.string());
  return file;
}

/// Returns the options that must be equal in two runs for a comparison at the same step.
Json model_json(const Options& options, int ranks) {
  return {{"ranks", ranks},
          {"vocabulary", options.vocabulary},
          {"embedding", options.embedding},
          {"hidden", options.hidden},
          {"batch_per_rank", options.batch.sequences},
          {"length", options.batch.length},
          {"negatives", options.batch.negatives},
          {"table_learning_rate", options.table_learning_rate},
          {"evaluation_words", options.evaluation_words},
          {"seed", options.seed}};
}

const char* name_of(weir::Feedback feedback) {
  switch (feedback) {
    case weir::Feedback::none:
      return "none";
    case weir::Feedback::residual:
      return "residual";
    case weir::Feedback::ef21:
      return "ef21";
    default:
      return "automatic";
  }
}

/// Returns how dense gradients travel and which optimizer uses them. Runs may differ in this.
Json dense_json(const Options& options) {
  return {{"algorithm", options.dense.algorithm},
          {"density", options.dense.density},
          {"compressor", options.dense.compressor},
          {"compressor_parameters", options.dense.compressor_parameters},
          {"error_feedback", name_of(options.dense.error_feedback)},
          {"feedback_decay", options.dense.feedback_decay},
          {"optimizer", options.dense_momentum < 0 ? "adam" : "sgd"},
          {"momentum", std::max(0.0, options.dense_momentum)},
          {"learning_rate", options.dense_learning_rate}};
}

Json table_json(const TableTally& tally, double steps) {
  return {{"rows_looked_up", tally.tokens / steps}, {"rows_distinct", tally.distinct / steps}, {"rows_prior", tally.prior / steps}};
}

Json point_json(const CurvePoint& point) {
  return {{"step", point.step},
          {"perplexity", point.perplexity},
          {"seconds", point.seconds},
          {"stall", point.stall},
          {"progress", point.progress},
          {"table_bytes", point.table_bytes},
          {"most_table_bytes", point.most_table_bytes},
          {"dense_bytes", point.dense_bytes},
          {"dense_compression", point.dense_compression}};
}

Json to_json(const Scheme& scheme, const Options& options, const TrainingResult& result) {
  const CurvePoint& last = result.curve.back();
  const auto steps = static_cast<double>(last.step);
  Json json = {{"name", options.name(scheme)},
               {"scheme", scheme.name},
               {"description", scheme.description},
               {"steps", last.step},
               {"perplexity", last.perplexity},
               {"seconds", last.seconds},
               {"ms_per_step", last.seconds / steps * 1e3},
               {"ms_stall_per_step", last.stall / steps * 1e3},
               {"ms_stall_embedding", last.stall_parts[0] / steps * 1e3},
               {"ms_stall_output", last.stall_parts[1] / steps * 1e3},
               {"ms_stall_dense", last.stall_parts[2] / steps * 1e3},
               {"ms_progress_per_step", last.progress / steps * 1e3},
               {"table_bytes_per_step", last.table_bytes / steps},
               {"most_table_bytes_per_step", last.most_table_bytes / steps},
               {"dense_bytes_per_step", last.dense_bytes / steps},
               {"ms_dense_compression_per_step", last.dense_compression / steps * 1e3},
               {"dense", dense_json(options)},
               {"embedding_table", table_json(result.tables[0], steps)},
               {"output_table", table_json(result.tables[1], steps)},
               {"model", model_json(options, result.ranks)}};
  for (const CurvePoint& point : result.curve) json["curve"].push_back(point_json(point));
  return json;
}

}  // namespace

Progress::Progress(const Scheme& scheme, const Options& options, bool visible, bool bar)
    : label_(options.name(scheme)), options_(options), visible_(visible), bar_(bar) {}

double Progress::share_done(std::int64_t step, const CurvePoint& latest) const {
  const double of_steps = static_cast<double>(step) / static_cast<double>(options_.steps);
  const double of_seconds = options_.seconds > 0 ? latest.seconds / options_.seconds : 0;
  return std::min(1.0, std::max(of_steps, of_seconds));
}

std::string Progress::time_left(double share) const {
  const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  const auto left = static_cast<int>(elapsed * (1 - share) / share);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%d:%02d left", left / 60, left % 60);
  return text.data();
}

void Progress::on_step(std::int64_t step, const CurvePoint& latest, bool last) {
  if (!visible_ || (!bar_ && latest.step != step)) return;
  const double share = last ? 1 : share_done(step, latest);
  std::string bar;
  if (bar_) {
    const auto filled = static_cast<std::size_t>(share * bar_width);
    bar.append(filled, '#').append(bar_width - filled, '.').append(1, ' ');
  }
  const double ms = 1e3 / static_cast<double>(std::max<std::int64_t>(1, latest.step));
  const double sent = (latest.table_bytes + latest.dense_bytes) * 1e-3 * ms;
  std::fprintf(stderr, "%s%-19s %sstep %5lld/%lld  perplexity %8.1f  %6.1f ms/step, stall %6.1f  %9s/step  %s%s", bar_ ? "\r" : "",
               label_.c_str(), bar.c_str(), static_cast<long long>(step), static_cast<long long>(options_.steps), latest.perplexity,
               latest.seconds * ms, latest.stall * ms, format_bytes(sent).c_str(), time_left(share).c_str(),
               bar_ && !last ? "  " : "\n");
}

void write_report(const std::filesystem::path& folder, const Scheme& scheme, const Options& options, const TrainingResult& result) {
  const std::string name = options.name(scheme);
  open_for_writing(folder / (name + ".json")) << to_json(scheme, options, result).dump(2) << '\n';
  std::ofstream csv = open_for_writing(folder / (name + ".csv"));
  csv << "step,perplexity,seconds,stall,table_bytes,dense_bytes,dense_compression\n";
  for (const CurvePoint& point : result.curve) {
    csv << point.step << ',' << point.perplexity << ',' << point.seconds << ',' << point.stall << ','
        << static_cast<std::int64_t>(point.table_bytes) << ',' << static_cast<std::int64_t>(point.dense_bytes) << ','
        << point.dense_compression << '\n';
  }
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 5> units = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < units.size(); ++unit) bytes /= 1e3;
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f %s", decimals, bytes, units[unit]);
  return text.data();
}

}  // namespace language_model
