// bench_select.hpp: shared by weir bench select in host and CUDA memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "cli/bench_input.hpp"
#include "cli/report.hpp"
#include "collectives/allreduce.hpp"

namespace weir::cli {

struct SelectOptions {
  std::int64_t count = 16777216;
  double density = 0.01;
  int iterations = 20;
  MemorySpace memory = MemorySpace::host;
  std::string threshold = "all", parameters, input, json;
};

struct SelectMethod {
  std::string name;
  std::string threshold = name;
  std::string parameters{};  ///< of the threshold
  bool cold = false;         ///< every iteration starts without history
};
inline constexpr int select_warmup = 3;  ///< iterations that are not measured

/// Returns k.
[[nodiscard]] std::int64_t target(const SelectOptions& options);

/// Collects the iterations of one method.
class SelectMeasurement {
 public:
  SelectMeasurement(const SelectOptions& options, const SelectMethod& method, const char* baseline);
  /// `sums`: all entries that the selection was made from.
  void add(double ms, double base_ms, std::int64_t allocations, const SparseVector<float>& selection, const float* sums);
  [[nodiscard]] Row row() const;

 private:
  std::int64_t k_;
  Row row_;
  std::vector<double> times_, baseline_, errors_, overlaps_;
  std::int64_t allocations_ = 0;
};

/// Measures one method in CUDA memory by the stages of a plan of one rank. Compares with a copy of the 12 bytes per element that a
/// pass must move.
[[nodiscard]] Row measure_on_gpu(const SelectOptions& options, const Gradients& gradients, const SelectMethod& method);

}  // namespace weir::cli
