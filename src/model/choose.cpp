#include "model/choose.hpp"

#include <algorithm>

#include "collectives/allreduce.hpp"
#include "model/stages.hpp"

namespace weir {

using compress::Carriage;
using compress::Compressor;

std::string_view Candidate::compressor_name(const Allowed& allowed) const {
  if (compressor < 0) return sparse ? "top_k" : "none";
  const Compressor& mine = allowed.compressors[static_cast<std::size_t>(compressor)];
  return mine ? mine.row->name : "none";
}

std::string_view why_not_by(const AllreduceRow& algorithm, const Compressor& compressor) {
  const auto why = compressor ? compressor.row->why_not_by : nullptr;
  return why != nullptr ? why(compressor.parameters, algorithm) : std::string_view();
}

bool carries(const AllreduceRow& algorithm, const Compressor& compressor) {
  if (!compressor) return algorithm.dense();
  const Carriage carriage = compressor.row->carriage;
  const bool of_its_kind = carriage == Carriage::sparse   ? algorithm.sparse()
                           : carriage == Carriage::packed ? algorithm.packed()
                                                          : algorithm.dense();
  return of_its_kind && why_not_by(algorithm, compressor).empty();
}

Cost compressed_cost(const Machine& machine, const Problem& problem, const AllreduceRow& algorithm, const Compressor& compressor) {
  const compress::Expense expense = compress::expense_of(compressor, problem.count, problem.k);
  Problem compressed = problem;
  if (algorithm.packed()) {
    compressed.packed_bytes = expense.packed_bytes;
    compressed.encode_adds = expense.encode_adds;
    compressed.decode_adds = expense.decode_adds;
    return algorithm.cost(machine, compressed);
  }
  const bool linear = compressor && compressor.row->carriage == Carriage::linear;
  if (linear) {
    compressed.count = expense.summed;
    compressed.shared_memory = false;  // of several sums in a run, the second would overwrite the first too early
  }
  Cost cost = algorithm.cost(machine, compressed);
  if (linear)  // the whole gradient is checked
    cost.select += model::check_seconds({machine, problem}) - model::check_seconds({machine, compressed});
  const double add_seconds = static_cast<double>(problem.count) * problem.value_bytes / machine.rates.add;
  cost.select += expense.encode_adds * add_seconds;
  cost.apply += expense.decode_adds * add_seconds;
  return cost;
}

namespace {

void add_candidates(const Machine& machine, Problem problem, const AllreduceRow& row, const Allowed& allowed, int compressor,
                    std::vector<Candidate>& candidates) {
  const Compressor none;
  const Compressor& mine = compressor < 0 ? none : allowed.compressors[static_cast<std::size_t>(compressor)];
  problem.parameters = parameters_if_chosen(row, allowed.parameters);
  const auto add = [&](WireFormat format, WireValues values) {
    problem.format = format;
    problem.values = values;
    const Cost cost = compressor < 0 ? row.cost(machine, problem) : compressed_cost(machine, problem, row, mine);
    candidates.push_back({row.name, row.sparse(), format, values, cost, compressor});
  };
  add(WireFormat::compact, WireValues::native);
  if (!row.sparse()) return;
  add(WireFormat::coo, WireValues::native);
  if (allowed.values == WireValues::native || problem.value_bytes != 4) return;
  add(WireFormat::compact, allowed.values);
  add(WireFormat::coo, allowed.values);
}

}  // namespace

std::vector<Candidate> choose(const Machine& machine, const Problem& problem, const Allowed& allowed) {
  const auto& names = allowed.algorithms;
  for (const std::string_view algorithm : names) static_cast<void>(find_allreduce(algorithm));
  std::vector<Candidate> candidates;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (names.empty() ? !row.host_memory : std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    if (allowed.compressors.empty() && !row.packed()) add_candidates(machine, problem, row, allowed, -1, candidates);
    for (std::size_t i = 0; i < allowed.compressors.size(); ++i) {
      if (carries(row, allowed.compressors[i])) add_candidates(machine, problem, row, allowed, static_cast<int>(i), candidates);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.cost.seconds() < b.cost.seconds(); });
  return candidates;
}

}  // namespace weir
