// report.hpp: prints and writes the results of the simulation, one row per algorithm.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>
#include <weir/weir.hpp>

namespace weir::simulation {

/// Medians over iterations of the largest value of any rank.
struct Row {
  std::string algorithm;      ///< as on the command line: "name", "name+threshold", "name:schedule" or "name:phased/radix"
  std::string error;          ///< why this algorithm did not run; if set, the rest is empty
  std::string explanation{};  ///< the plan's explanation
  int ranks = 0, nodes = 0;
  std::int64_t count = 0;
  double density = 0;
  int iterations = 0;
  double seconds = 0, select = 0, exchange = 0, apply = 0;  ///< simulated
  std::array<double, level_count> bytes_sent{}, bytes_received{}, messages_sent{};
  double payload_sent = 0, control_sent = 0;
  double selected_local = 0, selected_global = 0;
};

void print_table(const std::vector<Row>& rows);
/// Writes the rows as JSON. Throws std::runtime_error that names the file.
void write_json(const std::vector<Row>& rows, const std::string& file);

}  // namespace weir::simulation
