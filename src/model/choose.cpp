#include "model/choose.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace weir {
namespace {

const CostRow& find_row(std::string_view algorithm) {
  std::string known;
  for (const CostRow& row : cost_table()) {
    if (row.algorithm == algorithm) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.algorithm);
  }
  fail(WEIR_ERR_ARGUMENT, "there is no cost function for '{}': known are {}", algorithm, known);
}

void add_candidates(const Machine& machine, Problem problem, const CostRow& row, WireValues narrow,
                    std::vector<Candidate>& candidates) {
  const auto add = [&](WireFormat format, WireValues values) {
    problem.format = format;
    problem.values = values;
    candidates.push_back({row.algorithm, row.sparse, format, values, row.cost(machine, problem)});
  };
  add(WireFormat::compact, WireValues::native);
  if (!row.sparse) return;
  add(WireFormat::coo, WireValues::native);
  if (narrow == WireValues::native || problem.value_bytes != 4) return;
  add(WireFormat::compact, narrow);
  add(WireFormat::coo, narrow);
}

}  // namespace

std::vector<Candidate> choose(const Machine& machine, const Problem& problem, const Allowed& allowed) {
  for (const std::string_view algorithm : allowed.algorithms) find_row(algorithm);
  std::vector<Candidate> candidates;
  for (const CostRow& row : cost_table()) {
    const auto& names = allowed.algorithms;
    if (names.empty() || std::find(names.begin(), names.end(), row.algorithm) != names.end())
      add_candidates(machine, problem, row, allowed.values, candidates);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.seconds() < b.cost.seconds(); });
  return candidates;
}

}  // namespace weir
