#include "model/machine.hpp"

#include "base/error.hpp"

namespace weir {

const Link& Machine::link(Level level) const {
  const auto at = [this](int index) -> const std::optional<Link>& { return links[static_cast<std::size_t>(index)]; };
  const int wanted = static_cast<int>(level), node = static_cast<int>(Level::node);
  const int first = wanted <= node ? 0 : node + 1, last = wanted <= node ? node : level_count - 1;
  for (int outer = wanted; outer <= last; ++outer) {
    if (at(outer)) return *at(outer);
  }
  for (int inner = wanted; inner >= first; --inner) {
    if (at(inner)) return *at(inner);
  }
  for (int outer = last + 1; outer < level_count; ++outer) {
    if (at(outer)) return *at(outer);
  }
  for (int inner = first; inner-- > 0;) {
    if (at(inner)) return *at(inner);
  }
  fail(WEIR_ERR_ARGUMENT, "the machine has no level at all: it must have at least one");
}

namespace {

Machine make_builtin_machine() {
  Machine machine;
  machine.provenance = {.host = "built in", .weir = fmt::format("{}.{}", version().major, version().minor)};
  const auto set = [&machine](Level level, const Link& link) { machine.links[static_cast<std::size_t>(level)] = link; };
  set(Level::socket, {.latency = 0.5e-6, .overhead = 0.2e-6, .bandwidth = 8e9, .exchange = 6e9, .shared = 60e9});
  set(Level::node, {.latency = 0.9e-6, .overhead = 0.2e-6, .bandwidth = 6e9, .exchange = 5e9, .shared = 50e9});
  set(Level::system, {.latency = 20e-6, .overhead = 3e-6, .bandwidth = 2.2e9, .exchange = 2e9, .shared = 2.9e9});
  // `weir calibrate` on an AMD EPYC (Zen 4) measures the same within 30 %. For an Intel Xeon (Sapphire Rapids), add and select are
  // known: 8.5e9 and 2e9.
  machine.rates = {
      .add = 1.1e10, .select = 2.5e9, .cut = 1e9, .fill = 1.5e10, .scatter = 1.8e8, .merge = 1e9, .encode = 2.5e9, .decode = 2e9};
  return machine;
}

}  // namespace

const Machine& builtin_machine() {
  static const Machine machine = make_builtin_machine();
  return machine;
}

Machine with_shared_cores(const Machine& machine, int ranks_per_core) {
  if (ranks_per_core == 1) return machine;
  // Measured with Open MPI, ranks that yield, in shared memory: 0.5 us if each has a core, 2.2 and 4.1 us if two and four share
  // one.
  constexpr double turn = 1.25e-6;
  Machine shared = machine;
  for (std::optional<Link>& link : shared.links) {
    if (!link) continue;
    link->latency += turn * (ranks_per_core - 1);
    link->overhead *= ranks_per_core;
  }
  Rates& r = shared.rates;
  for (double* rate : {&r.add, &r.select, &r.cut, &r.fill, &r.scatter, &r.merge, &r.encode, &r.decode}) *rate /= ranks_per_core;
  return shared;
}

}  // namespace weir
