#include "catalogue/fusion/schemes.hpp"

#include <algorithm>

#include "fusion/scheme.hpp"

namespace weir::fusion {
namespace {

/// Grows stretches one after the other. joins(begin of the stretch's exchange, its bytes, next tensor) says whether the tensor
/// joins.
template <class Joins>
Ends grown(const Line& line, const LinearCost& cost, Joins joins) {
  Ends ends;
  double free = 0;  // when the network becomes free
  for (std::size_t i = 0; i < line.size();) {
    std::int64_t bytes = line[i].bytes;
    double begin = std::max(free, line[i].ready);
    for (++i; i < line.size() && joins(begin, bytes, line[i]); ++i) {
      bytes += line[i].bytes;
      begin = std::max(begin, line[i].ready);
    }
    free = begin + cost(bytes);
    ends.push_back(i);
  }
  return ends;
}

}  // namespace

Ends merged(const Line& line, const LinearCost& cost) {
  return grown(line, cost, [&](double begin, std::int64_t, const Load& next) { return next.ready - begin < cost.startup; });
}

Ends balanced(const Line& line, const LinearCost& cost, std::int64_t most) {
  return grown(line, cost, [&](double begin, std::int64_t bytes, const Load& next) {
    const bool comes_meanwhile = next.ready <= begin, comes_late = begin + cost(bytes) < next.ready;
    return (comes_meanwhile || comes_late) && bytes + next.bytes <= most;
  });
}

const SchemeRow scheme_ahead_inter_intra{
    .scheme = FusionScheme::ahead_inter_intra, .divide = by_entries, .refit = [](const DivisionTask& task) {
      return divide(task.line, balanced(task.line, task.cost, task.entry_bytes));
    }};
const SchemeRow scheme_omgs{.scheme = FusionScheme::omgs,
                            .divide = [](const DivisionTask& task) { return divide(task.line, merged(task.line, task.cost)); }};
/// The scheme of Cupcake (Wang et al. 2023).
const SchemeRow scheme_cupcake{.scheme = FusionScheme::cupcake, .divide = [](const DivisionTask& task) {
                                 return divide(task.line, earliest(task.line, task.cost, task.line.size()));
                               }};

}  // namespace weir::fusion
