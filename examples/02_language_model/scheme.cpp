#include "scheme.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace language_model {
namespace {

// The schemes, in the order in which they are run and shown.
constexpr std::array registry = {
    Scheme{"embrace", "columns", true, "tables by columns, AlltoAll; 2D scheduling"},
    Scheme{"embrace_no_schedule", "columns", false, "tables by columns, AlltoAll; everything waited for before the next step"},
    Scheme{"allgather", "allgather", false, "tables on every rank; rows of gradients by allgather"},
    Scheme{"server", "server", false, "tables on one rank of each node, by rows"},
    Scheme{"dense_allreduce", "dense_allreduce", false, "tables on every rank; their dense gradients by ring allreduce"},
};

}  // namespace

std::span<const Scheme> schemes() { return registry; }

const Scheme& find_scheme(std::string_view name) {
  const auto* const found = std::ranges::find(registry, name, &Scheme::name);
  if (found != registry.end()) return *found;
  throw std::runtime_error("there is no scheme '" + std::string(name) + "': it must be all or some of " + scheme_names());
}

std::string scheme_names() {
  std::string names;
  for (const Scheme& scheme : registry) names.append(names.empty() ? "" : ", ").append(scheme.name);
  return names;
}

}  // namespace language_model
