// report.hpp: what bench_gpu has measured: a line each as it comes, JSON in the end, and which bounds are met.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace weir::bench {

/// One measurement. The share is reference_ms / ms: 1 is as fast as the reference, and `bound`, if above 0, the least it should be.
struct Row {
  std::string name;
  std::int64_t count = 0, k = 0;
  std::string entropy;
  double ms = 0;
  std::string reference;
  double reference_ms = 0;
  double bound = 0;
  [[nodiscard]] double share() const { return reference_ms / ms; }
};

class Report {
 public:
  /// Prints a title and the heads of columns for rows that follow.
  void begin(std::string_view title);
  void add(const Row& row);
  /// What was not measured, and why.
  void skip(const std::string& name, std::int64_t count, std::int64_t k, const std::string& reason);
  /// Any other row, printed by the caller; it counts as a bound if `met` is given.
  void add(JsonValue row, const bool* met);

  /// Rows under "benchmark": "kernel", "plan" or "skipped".
  [[nodiscard]] const JsonValue& rows() const { return rows_; }
  /// "7 of 8 bounds met"
  [[nodiscard]] std::string verdict() const;

 private:
  void count_bound(bool met);

  JsonValue rows_ = JsonValue::array();
  int bounds_ = 0, met_ = 0;
};

/// What a bound's column says.
[[nodiscard]] inline const char* verdict_of(bool met) { return met ? "PASS" : "below"; }

}  // namespace weir::bench
