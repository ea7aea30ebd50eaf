// report.hpp: benchmark rows as a table and as JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::cli {

struct Row {
  std::string benchmark, algorithm;
  std::string algorithm_parameters{};
  std::string compressor{};  ///< as requested; empty: the algorithm's own
  std::string compressor_parameters{};
  std::string memory = "host";  ///< host or cuda: where the gradient is
  std::int64_t count = 0;
  double density = 0;
  int ranks = 1;
  double median_ms = 0, min_ms = 0;
  std::string baseline;
  double baseline_ms = 0;
  double ratio = 0;                 ///< median_ms / baseline_ms
  std::string ran_as{};             ///< the last algorithm that automatic choice has used; otherwise the algorithm
  std::string ran_compressor{};     ///< the same for the compressor, with the parameters that differ from defaults
  std::int64_t bytes_sent_max = 0;  ///< maximum over ranks and iterations
  std::int64_t bytes_in_node = 0,
               bytes_across = 0;  ///< to ranks of the same node and of other nodes: maximum over ranks, mean over iterations
  std::int64_t bytes_in_switch = 0,
               bytes_across_switches = 0;  ///< parts of bytes_across: to nodes of the same switch, and to others or unknown ones
  std::int64_t selected_local_min = 0, selected_local_max = 0, selected_global_min = 0, selected_global_max = 0;
  double select_ms = 0, in_node_ms = 0, exchange_ms = 0, apply_ms = 0;
  double allocations = 0;                            ///< per iteration, by operator new, after warm-up
  double count_error_mean = 0, count_error_max = 0;  ///< |count - k| / k over the iterations; selection only
  std::string kernels{};                             ///< the instruction set in use, or cuda; selection only
  double overlap = 0;                                ///< share of the k largest entries that is selected, mean; selection only
};

[[nodiscard]] double median(std::vector<double> values);
[[nodiscard]] double minimum(const std::vector<double>& values);
/// Returns "a, b, c". Replaces fmt::join, which takes long to compile.
[[nodiscard]] std::string joined(std::span<const std::string> words, std::string_view between = ", ");
[[nodiscard]] std::string joined(std::span<const std::string_view> words, std::string_view between = ", ");

void print_table(const std::vector<Row>& rows);
/// Prints the columns that matter to selection.
void print_selection_table(const std::vector<Row>& rows);
/// Throws std::runtime_error naming the file if it cannot be written, so that no measurement is lost. Does not change the file.
/// Does nothing for an empty name.
void require_writable(const std::string& file);
/// Throws std::runtime_error naming the file.
void write_json(const std::vector<Row>& rows, const std::string& file);

/// Returns the number of calls of operator new in this process so far.
[[nodiscard]] std::int64_t allocations_so_far();

}  // namespace weir::cli
