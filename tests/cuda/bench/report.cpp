#include "bench/report.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace weir::bench {

void Report::begin(std::string_view title) {
  fmt::print("\n{}\n{:<28} {:>11} {:>9} {:>7} {:>10} {:<22} {:>10} {:>6}\n", title, "what", "count", "k", "entropy", "ms",
             "against", "its ms", "share");
}

void Report::add(const Row& row) {
  fmt::print("{:<28} {:>11} {:>9} {:>7} {:>10.4f} {:<22} {:>10.4f} {:>6.2f}", row.name, row.count, row.k, row.entropy, row.ms,
             row.reference, row.reference_ms, row.share());
  JsonValue json{{"benchmark", "kernel"},  {"name", row.name}, {"count", row.count},       {"k", row.k},
                 {"entropy", row.entropy}, {"ms", row.ms},     {"against", row.reference}, {"against_ms", row.reference_ms},
                 {"share", row.share()}};
  if (row.bound > 0) {
    const bool met = row.share() >= row.bound;
    fmt::print("  bound {:.2f} {}", row.bound, verdict_of(met));
    json.set("bound", row.bound);
    json.set("met", met);
    count_bound(met);
  }
  fmt::print("\n");
  std::fflush(stdout);
  rows_.push_back(std::move(json));
}

void Report::skip(const std::string& name, std::int64_t count, std::int64_t k, const std::string& reason) {
  fmt::print("{:<28} {:>11} {:>9} skipped: {}\n", name, count, k, reason);
  rows_.push_back(JsonValue{{"benchmark", "skipped"}, {"name", name}, {"count", count}, {"k", k}, {"reason", reason}});
}

void Report::add(JsonValue row, const bool* met) {
  if (met != nullptr) {
    row.set("met", *met);
    count_bound(*met);
  }
  rows_.push_back(std::move(row));
}

void Report::count_bound(bool met) {
  ++bounds_;
  met_ += met ? 1 : 0;
}

std::string Report::verdict() const { return fmt::format("{} of {} bounds met", met_, bounds_); }

}  // namespace weir::bench
