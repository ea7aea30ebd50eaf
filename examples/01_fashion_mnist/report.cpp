#include "report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace fashion_mnist {
namespace {

constexpr int bar_width = 24;

std::ofstream open_for_writing(const std::filesystem::path& path) {
  std::ofstream file(path);
  if (!file) throw std::runtime_error("cannot write " + path.string());
  return file;
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

nlohmann::ordered_json to_json(const CurvePoint& point) {
  return {{"step", point.step},       {"epoch", point.epoch}, {"bytes_per_rank", point.bytes_per_rank},
          {"seconds", point.seconds}, {"loss", point.loss},   {"accuracy", point.accuracy}};
}

nlohmann::ordered_json to_json(const Options& options, const TrainingResult& result) {
  const auto steps = static_cast<double>(result.steps);
  const CurvePoint& last = result.curve.back();
  nlohmann::ordered_json json = {{"name", options.name()},
                                 {"algorithm", options.algorithm},
                                 {"compressor", options.compressor},
                                 {"sparse", result.sparse},
                                 {"compressed", result.compressed},
                                 {"accuracy", last.accuracy},
                                 {"bytes_per_rank_per_step", last.bytes_per_rank / steps},
                                 {"ms_per_step", last.seconds / steps * 1e3},
                                 {"ms_selection_per_step", result.split.selection / steps * 1e3},
                                 {"ms_exchange_per_step", result.split.exchange / steps * 1e3},
                                 {"ms_apply_per_step", result.split.apply / steps * 1e3},
                                 {"ms_compression_per_step", (result.split.selection + result.split.apply) / steps * 1e3},
                                 {"ms_compute_per_step", result.split.compute / steps * 1e3},
                                 {"steps", result.steps},
                                 {"seconds", last.seconds},
                                 {"ranks", result.ranks},
                                 {"parameters", result.parameters},
                                 {"epochs", options.epochs},
                                 {"batch_per_rank", options.batch},
                                 {"learning_rate", options.learning_rate},
                                 {"momentum", options.momentum},
                                 {"seed", options.seed}};
  if (result.sparse) {
    json["density"] = options.density;
    json["density_warmup_epochs"] = options.density_warmup_epochs;
    json["threshold"] = options.threshold;
  }
  if (!options.compressor.empty()) {
    json["compressor_parameters"] = options.compressor_parameters;
    json["error_feedback"] = name_of(options.error_feedback);
    json["feedback_decay"] = options.feedback_decay;
  }
  for (const CurvePoint& point : result.curve) json["curve"].push_back(to_json(point));
  return json;
}

}  // namespace

Progress::Progress(const Options& options, bool visible, bool bar)
    : label_(options.name()), epochs_(options.epochs), visible_(visible), bar_(bar) {}

void Progress::on_step(std::int64_t step, std::int64_t steps, const CurvePoint& latest) {
  const bool epoch_ends = step * epochs_ / steps != (step - 1) * epochs_ / steps;
  if (!visible_ || (!bar_ && !epoch_ends)) return;
  const auto filled = static_cast<std::size_t>(step * bar_width / steps);
  std::string bar;
  if (bar_) bar.append(filled, '#').append(bar_width - filled, '.').append(1, ' ');
  const double ms = latest.step > 0 ? latest.seconds / static_cast<double>(latest.step) * 1e3 : 0.0;
  std::fprintf(stderr, "%s%s %sepoch %4.1f/%d  loss %.3f  accuracy %5.2f %%  %9s sent  %5.1f ms/step%s", bar_ ? "\r" : "",
               label_.c_str(), bar.c_str(), static_cast<double>(step * epochs_) / static_cast<double>(steps), epochs_, latest.loss,
               latest.accuracy * 100, format_bytes(latest.bytes_per_rank).c_str(), ms, bar_ && step < steps ? "" : "\n");
}

void write_report(const std::filesystem::path& folder, const Options& options, const TrainingResult& result) {
  open_for_writing(folder / (options.name() + ".json")) << to_json(options, result).dump(2) << '\n';
  std::ofstream csv = open_for_writing(folder / (options.name() + ".csv"));
  csv << "step,epoch,bytes_per_rank,seconds,loss,accuracy\n";
  for (const CurvePoint& point : result.curve) {
    csv << point.step << ',' << point.epoch << ',' << static_cast<std::int64_t>(point.bytes_per_rank) << ',' << point.seconds << ','
        << point.loss << ',' << point.accuracy << '\n';
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

}  // namespace fashion_mnist
