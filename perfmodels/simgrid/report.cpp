#include "report.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace weir::simulation {
namespace {

nlohmann::ordered_json by_level(const std::array<double, level_count>& values) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (std::size_t level = 0; level < values.size(); ++level) {
    if (values[level] > 0) object[std::string(level_name(static_cast<Level>(level)))] = values[level];
  }
  return object;
}

nlohmann::ordered_json as_json(const Row& r) {
  nlohmann::ordered_json row = {
      {"algorithm", r.algorithm}, {"ranks", r.ranks}, {"nodes", r.nodes}, {"count", r.count}, {"density", r.density}};
  if (!r.error.empty()) {
    row["error"] = r.error;
    return row;
  }
  row["explanation"] = r.explanation;
  row["iterations"] = r.iterations;
  row["seconds"] = r.seconds;
  row["seconds_select"] = r.select;
  row["seconds_exchange"] = r.exchange;
  row["seconds_apply"] = r.apply;
  row["bytes_sent"] = by_level(r.bytes_sent);
  row["bytes_received"] = by_level(r.bytes_received);
  row["messages_sent"] = by_level(r.messages_sent);
  row["payload_bytes_sent"] = r.payload_sent;
  row["control_bytes_sent"] = r.control_sent;
  row["selected_local"] = r.selected_local;
  row["selected_global"] = r.selected_global;
  return row;
}

}  // namespace

void print_table(const std::vector<Row>& rows) {
  fmt::print("{:<28} {:>5} {:>12} {:>10} {:>10} {:>10} {:>10} {:>12} {:>12} {:>11} {:>11}\n", "algorithm", "ranks", "count", "ms",
             "select", "exchange", "apply", "payload B", "control B", "local", "global");
  for (const Row& r : rows) {
    if (!r.error.empty()) {
      fmt::print("{:<28} {}\n", r.algorithm, r.error);
      continue;
    }
    fmt::print("{:<28} {:>5} {:>12} {:>10.4f} {:>10.4f} {:>10.4f} {:>10.4f} {:>12.0f} {:>12.0f} {:>11.0f} {:>11.0f}\n", r.algorithm,
               r.ranks, r.count, r.seconds * 1e3, r.select * 1e3, r.exchange * 1e3, r.apply * 1e3, r.payload_sent, r.control_sent,
               r.selected_local, r.selected_global);
  }
}

void write_json(const std::vector<Row>& rows, const std::string& file) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows) list.push_back(as_json(row));
  std::ofstream out(file);
  out << list.dump(1) << '\n';
  if (!out) throw std::runtime_error(fmt::format("cannot write the JSON file '{}'", file));
}

}  // namespace weir::simulation
