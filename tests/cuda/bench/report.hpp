// report.hpp: reports the measurements of bench_gpu: a line for each at once, JSON at the end, and the bounds that are met.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"

namespace weir::bench {

/// One measurement. Its share is reference_ms / ms: 1 is as fast as the reference. If `bound` is above 0, the share should reach
/// it.
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
  /// Prints a title and the column headings for the rows that follow.
  void begin(std::string_view title);
  void add(const Row& row);
  /// Reports a case that was not measured, and the reason.
  void skip(const std::string& name, std::int64_t count, std::int64_t k, const std::string& reason);
  /// Adds a row that the caller prints. It counts as a bound if `met` is not null.
  void add(JsonValue row, const bool* met);

  /// Returns all rows. Their "benchmark" is "kernel", "plan" or "skipped".
  [[nodiscard]] const JsonValue& rows() const { return rows_; }
  /// Returns, for example, "7 of 8 bounds met".
  [[nodiscard]] std::string verdict() const;

 private:
  void count_bound(bool met);

  JsonValue rows_ = JsonValue::array();
  int bounds_ = 0, met_ = 0;
};

/// Returns the text in a bound's column.
[[nodiscard]] inline const char* verdict_of(bool met) { return met ? "PASS" : "below"; }

}  // namespace weir::bench
