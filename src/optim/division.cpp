#include "optim/division.hpp"

#include <algorithm>

#include "collectives/allgatherv.hpp"
#include "model/stages.hpp"

namespace weir::optim {
namespace {

/// Divides parts among as few owners as possible, none with more work than `most` unless a single part has more.
Begins filled(std::span<const OperatorPart> parts, double most) {
  Begins begins = {0};
  double sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (sum + parts[i].seconds > most && i > begins.back()) {
      begins.push_back(i);
      sum = 0;
    }
    sum += parts[i].seconds;
  }
  begins.push_back(parts.size());
  return begins;
}

}  // namespace

Begins balanced(std::span<const OperatorPart> parts, int owners) {
  const auto most_owners = static_cast<std::size_t>(owners);
  double total = 0, least = 0;
  for (const OperatorPart& part : parts) {
    total += part.seconds;
    least = std::max(least, part.seconds);
  }
  // The smallest sufficient limit lies between these. After this many halvings there is no double between them.
  double enough = total, short_of = std::max(least, total / owners);
  const auto suffices = [&](double most) { return filled(parts, most).size() - 1 <= most_owners; };
  if (suffices(short_of)) enough = short_of;
  constexpr int halvings = 60;
  for (int i = 0; i < halvings && short_of < enough; ++i) {
    const double middle = short_of + (enough - short_of) / 2;
    (suffices(middle) ? enough : short_of) = middle;
  }
  Begins begins = filled(parts, enough);
  begins.resize(most_owners + 1, parts.size());
  return begins;
}

double longest(std::span<const OperatorPart> parts, const Begins& begins) {
  double longest = 0;
  for (std::size_t owner = 0; owner + 1 < begins.size(); ++owner) {
    double seconds = 0;
    for (std::size_t i = begins[owner]; i < begins[owner + 1]; ++i) seconds += parts[i].seconds;
    longest = std::max(longest, seconds);
  }
  return longest;
}

OperatorCost cost_of(const Machine& machine, const Problem& ranks, std::span<const OperatorPart> parts, bool variable,
                     OperatorDivision division) {
  const model::Setting setting(machine, ranks);
  constexpr double word = 8;
  // The cost of agreeing on how it went.
  const double agreement = setting.network.allreduce_control(setting.all, word).seconds;
  if (division == OperatorDivision::replicated) return {longest(parts, balanced(parts, 1)), agreement};
  const bool all = division == OperatorDivision::all;
  const model::Group group = all ? setting.all : setting.node;
  const int owners = all ? ranks.ranks : ranks.smallest_node;
  std::int64_t bytes_together = 0;
  for (const OperatorPart& part : parts) bytes_together += part.result_bytes;
  const auto bytes = static_cast<double>(bytes_together);
  const double block = bytes / owners;
  const bool ring = bytes >= static_cast<double>(ring_from_bytes);
  double gather = (ring ? setting.network.ring_allgather(group, block) : setting.network.allgather(group, block + word)).seconds;
  if (variable) gather += setting.network.allgather(group, word).seconds;
  const bool results_carry_outcome = owners == ranks.ranks && !variable && !ring;
  return {longest(parts, balanced(parts, owners)), gather + (results_carry_outcome ? 0 : agreement)};
}

}  // namespace weir::optim
