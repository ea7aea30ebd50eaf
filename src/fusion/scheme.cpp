#include "fusion/scheme.hpp"

#include <algorithm>
#include <iterator>

#include "base/config_check.hpp"
#include "base/error.hpp"

namespace weir::fusion {
namespace {

constexpr std::size_t most_fitted_buffers = 64;

constexpr const SchemeRow* rows[] = {
#define WEIR_SCHEME(name) &scheme_##name,
#include "fusion/schemes.def"
#undef WEIR_SCHEME
};

/// Returns buffers whose gradients have at most `bytes` bytes.
Division by_gradients(Line line, std::int64_t bytes) {
  for (Load& load : line) load.bytes = load.gradient_bytes;
  return divide(line, by_bytes(line, bytes));
}

/// Returns the dense tensors only.
Division without_sparse(const DivisionTask& task) {
  Line dense;
  std::copy_if(task.line.begin(), task.line.end(), std::back_inserter(dense), [](const Load& load) { return load.dense; });
  return by_gradients(std::move(dense), task.gradient_bytes);
}

Division fitted(const DivisionTask& task) { return divide(task.line, earliest(task.line, task.cost, most_fitted_buffers)); }

}  // namespace

Division by_entries(const DivisionTask& task) { return divide(task.line, by_bytes(task.line, task.entry_bytes)); }

const SchemeRow scheme_none{.scheme = FusionScheme::none,
                            .divide = [](const DivisionTask& task) { return divide(task.line, one_each(task.line)); }};
const SchemeRow scheme_behind{.scheme = FusionScheme::behind,
                              .divide = [](const DivisionTask& task) { return by_gradients(task.line, task.gradient_bytes); },
                              .selects_in_buffers = true};
const SchemeRow scheme_ahead{.scheme = FusionScheme::ahead, .divide = without_sparse, .fills_as_they_come = true};
const SchemeRow scheme_ahead_inter{.scheme = FusionScheme::ahead_inter, .divide = by_entries};
const SchemeRow scheme_ahead_fitted{.scheme = FusionScheme::ahead_fitted, .divide = by_entries, .refit = fitted};
const SchemeRow scheme_ahead_tapered{.scheme = FusionScheme::ahead_tapered, .divide = [](const DivisionTask& task) {
                                       return divide(task.line, tapered(task.line, task.entry_bytes));
                                     }};

std::span<const SchemeRow* const> scheme_registry() { return rows; }

const SchemeRow& find_scheme(FusionScheme scheme) {
  const auto found = std::find_if(std::begin(rows), std::end(rows), [&](const SchemeRow* row) { return row->scheme == scheme; });
  require(found != std::end(rows), "scheme is {}: this build is without the catalogue, which has it; choose ahead_tapered",
          name_of(scheme));
  return **found;
}

}  // namespace weir::fusion
