// report.hpp: shows progress during the training, and writes <name>.json and <name>.csv afterwards.
#pragma once

#include <filesystem>
#include <string>

#include "training.hpp"

namespace fashion_mnist {

/// Shows progress on stderr: a bar rewritten in place, or a plain line per epoch.
class Progress : public Observer {
 public:
  /// `visible`: true on one rank only. `bar`: true if stderr is a terminal.
  Progress(const Options& options, bool visible, bool bar);
  void on_step(std::int64_t step, std::int64_t steps, const CurvePoint& latest) override;

 private:
  std::string label_;
  int epochs_;
  bool visible_;
  bool bar_;
};

/// Writes <name>.json (all figures) and <name>.csv (the curve, for plots) into the folder. <name> is Options::name().
void write_report(const std::filesystem::path& folder, const Options& options, const TrainingResult& result);

/// Returns `bytes` with three digits and a decimal unit, for example "6.41 MB".
std::string format_bytes(double bytes);

}  // namespace fashion_mnist
