#include "model/choose.hpp"

#include <algorithm>

#include "collectives/allreduce.hpp"

namespace weir {
namespace {

void add_candidates(const Machine& machine, Problem problem, const AllreduceRow& row, WireValues narrow,
                    std::vector<Candidate>& candidates) {
  const auto add = [&](WireFormat format, WireValues values) {
    problem.format = format;
    problem.values = values;
    candidates.push_back({row.name, row.sparse(), format, values, row.cost(machine, problem)});
  };
  add(WireFormat::compact, WireValues::native);
  if (!row.sparse()) return;
  add(WireFormat::coo, WireValues::native);
  if (narrow == WireValues::native || problem.value_bytes != 4) return;
  add(WireFormat::compact, narrow);
  add(WireFormat::coo, narrow);
}

}  // namespace

std::vector<Candidate> choose(const Machine& machine, const Problem& problem, const Allowed& allowed) {
  for (const std::string_view algorithm : allowed.algorithms) static_cast<void>(find_allreduce(algorithm));
  std::vector<Candidate> candidates;
  for (const AllreduceRow& row : allreduce_registry()) {
    const auto& names = allowed.algorithms;
    if ((names.empty() && row.host_memory) || std::find(names.begin(), names.end(), row.name) != names.end())
      add_candidates(machine, problem, row, allowed.values, candidates);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.seconds() < b.cost.seconds(); });
  return candidates;
}

}  // namespace weir
