// report.hpp: rows of figures, as a table and as JSON.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"

namespace weir::cli {

/// Throws std::runtime_error with a formatted text.
template <class... Args>
[[noreturn]] void give_up(fmt::format_string<Args...> text, Args&&... args) {
  throw std::runtime_error(fmt::format(text, std::forward<Args>(args)...));
}

/// Objects, each of which has its members in the order in which --json writes them.
using Rows = std::vector<JsonValue>;

/// Repeated measurements, by the name of the figure.
using Samples = std::map<std::string_view, std::vector<double>>;

/// Adds a measurement.
template <class Number>
void add(Samples& samples, std::string_view figure, Number value) {
  samples[figure].push_back(static_cast<double>(value));
}

[[nodiscard]] double median(std::vector<double> values);
[[nodiscard]] double mean(const std::vector<double>& values);
[[nodiscard]] double minimum(const std::vector<double>& values);
[[nodiscard]] double maximum(const std::vector<double>& values);
/// Returns "a, b, c". Replaces fmt::join, which takes long to compile.
template <class Words>
std::string joined(const Words& words, std::string_view between = ", ") {
  std::string text;
  for (const auto& word : words) {
    if (&word != &*words.begin()) text += between;
    text += word;
  }
  return text;
}
/// Returns for example "1 rank" or "2 ranks".
[[nodiscard]] std::string count_text(std::size_t count, std::string_view what);

/// Returns the milliseconds that `body` takes in this process.
template <class Body>
double milliseconds_of(Body body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

/// Returns a figure of a row.
[[nodiscard]] inline double number_of(const JsonValue& row, const char* figure) { return row.view().at(figure).number(); }

/// Returns the row of an allreduce or of one of its parts, with all members that such rows have: `figures`, and 0 or "" for others.
/// - compressor: as requested, or "" for the algorithm's own. memory: host or cuda. ratio: median_ms / baseline_ms.
/// - ran_as, ran_compressor: the last ones that automatic choice has used.
/// - bytes_sent_max: maximum over ranks and iterations. bytes_in_node and so on, by the place of the receiver: maximum over ranks,
///   mean over iterations. bytes_across: to other nodes, of which bytes_in_switch and bytes_across_switches are parts.
/// - allocations_per_iteration: by operator new, after warm-up.
/// - Of selection only: count_error_mean and count_error_max, |count - k| / k over the iterations; overlap, the share of the k
///   largest entries that is selected; kernels, the instruction set in use, or cuda.
[[nodiscard]] JsonValue result_row(std::initializer_list<JsonValue::Member> figures);

/// Prints a line for each row. `line` is what fmt would take, with names of members: "{algorithm:<24+} {median_ms:>10.3f}".
/// A + makes the column as wide as its longest text. {a..b:>21} shows two members, "1..2". A member that a row lacks is blank.
/// The first line has a title for each column.
void print_table(const Rows& rows, std::string_view line, const std::vector<std::string_view>& titles);
/// Prints the columns that matter to an allreduce.
void print_result_table(const Rows& rows);

/// Throws std::runtime_error naming the file if it cannot be written, so that no measurement is lost. Does not change the file.
/// Does nothing for an empty name.
void require_writable(const std::string& file);
[[nodiscard]] JsonValue list_of(const Rows& rows);
/// Writes a list of the rows. Does nothing for an empty name. Throws std::runtime_error naming the file.
void write_rows(const Rows& rows, const std::string& file);

/// Returns the number of calls of operator new in this process so far.
[[nodiscard]] std::int64_t allocations_so_far();

}  // namespace weir::cli
