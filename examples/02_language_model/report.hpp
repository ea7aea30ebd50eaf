// report.hpp: shows progress during the training, and writes <name>.json and <name>.csv afterwards.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "training.hpp"

namespace language_model {

/// Shows progress on stderr: a bar rewritten in place, or a plain line for each evaluation.
class Progress : public Observer {
 public:
  /// `visible`: true on one rank only. `bar`: true if stderr is a terminal.
  Progress(const Scheme& scheme, const Options& options, bool visible, bool bar);
  void on_step(std::int64_t step, const CurvePoint& latest, bool last) override;

 private:
  [[nodiscard]] double share_done(std::int64_t step, const CurvePoint& latest) const;
  [[nodiscard]] std::string time_left(double share) const;

  std::string label_;
  Options options_;
  bool visible_, bar_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Writes <name>.json (all figures) and <name>.csv (the curve, for plots) into the folder. <name> is Options::name().
void write_report(const std::filesystem::path& folder, const Scheme& scheme, const Options& options, const TrainingResult& result);

/// Returns `bytes` with three digits and a decimal unit, for example "6.41 MB".
std::string format_bytes(double bytes);

}  // namespace language_model
