#include "fusion/fused.hpp"

#include <algorithm>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "communicator/config_card.hpp"
#include "fusion/fusion_config.hpp"
#include "model/cost.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {

using namespace weir::fusion;

void FusedImpl::check_tensor(int tensor) const {
  require(!tensors.empty(), "fused '{}': there is no tensor {}: it was made without any", config.name, tensor);
  require(tensor >= 0 && tensor < std::ssize(tensors), "fused '{}': there is no tensor {}: they are numbered 0 to {}", config.name,
          tensor, std::ssize(tensors) - 1);
}

namespace {

struct Totals {
  std::int64_t count = 0, k = 0;
};

Totals totals_of(const FusionConfig& config, std::span<const FusedTensor> tensors) {
  Totals totals;
  for (const FusedTensor& tensor : tensors) {
    if (tensor.dense) continue;
    totals.count += tensor.count;
    totals.k += k_of(config, tensor);
  }
  return totals;
}

/// Returns the predicted cost of a buffer of `k` entries, for a model with these totals.
Cost cost_of(CommunicatorState& comm, const FusionConfig& config, const AllreduceRow& row, const Totals& totals, std::int64_t k) {
  const double share = totals.k > 0 ? static_cast<double>(k) / static_cast<double>(totals.k) : 0;
  const auto count = static_cast<std::int64_t>(share * static_cast<double>(totals.count));
  weir::Problem problem = make_problem(comm.topology, std::max(k, count), k, config.type);
  problem.format = config.wire_format;
  problem.values = config.wire_values;
  problem.parameters = parameters_if_chosen(row, config.algorithm_parameters);
  return row.cost(comm.agreed_machine().machine, problem);
}

double exchange_seconds(const Cost& cost) { return cost.in_node + cost.exchange; }

/// Returns the cheapest algorithm that delivers all selected entries.
const AllreduceRow& cheapest(CommunicatorState& comm, const FusionConfig& config, const Totals& totals, std::string& explanation) {
  const std::int64_t elements = config.buffer_bytes / type_bytes(config.type);
  const std::int64_t k =
      std::min<std::int64_t>(totals.k, std::max<std::int64_t>(1, std::llround(config.density * static_cast<double>(elements))));
  const AllreduceRow* best = nullptr;
  double least = 0;
  std::string predicted;
  for (const AllreduceRow& row : allreduce_registry()) {
    if (!row.sparse() || !row.delivers_all || row.sharded || !row.threshold.empty()) continue;
    const double seconds = exchange_seconds(cost_of(comm, config, row, totals, k));
    predicted += fmt::format("{}{} {:.3f} ms", predicted.empty() ? "" : ", ", row.name, seconds * 1e3);
    if (best != nullptr && seconds >= least) continue;
    best = &row;
    least = seconds;
  }
  explanation += fmt::format("algorithm {}: the cheapest for {} entries; predicted: {}\n", best->name, k, predicted);
  return *best;
}

/// Chooses scheme and algorithm. Lines tensors up backwards, each ready as soon as it has been sparsified.
FusionSetup set_up(CommunicatorState& comm, const FusionConfig& config, std::span<const FusedTensor> tensors) {
  FusionSetup setup;
  setup.config = config;
  if (setup.config.error_feedback == Feedback::automatic) setup.config.error_feedback = Feedback::residual;
  setup.scheme = &find_scheme(config.scheme);
  setup.explanation = fmt::format("scheme: {}\n", name_of(config.scheme));
  const Totals totals = totals_of(config, tensors);
  if (is_automatic(config.algorithm)) {
    setup.row = &cheapest(comm, config, totals, setup.explanation);
  } else {
    setup.row = &find_allreduce(config.algorithm);
    setup.explanation += fmt::format("algorithm {}: as asked for\n", setup.row->name);
  }
  setup.config.algorithm = setup.row->name;
  const ThresholdMethod threshold = threshold_of(config, setup.row->threshold);
  setup.config.threshold = threshold.row->name;
  setup.config.threshold_parameters = threshold.parameters.text();
  if (threshold.row->name != "exact") setup.explanation += fmt::format("threshold: {}\n", threshold.text());
  setup.config.algorithm_parameters = parameters_if_chosen(*setup.row, config.algorithm_parameters).text();
  if (setup.row->sharded && comm.topology.largest_node() > 1)
    setup.explanation += fmt::format("{} runs flat: buffers are exchanged between all ranks alike\n", setup.row->name);

  const std::int64_t entry = type_bytes(config.type) + 4;
  const Cost none = cost_of(comm, config, *setup.row, totals, 0), all = cost_of(comm, config, *setup.row, totals, totals.k);
  setup.cost.startup = std::max(1e-9, exchange_seconds(none));
  setup.cost.per_byte =
      totals.k > 0 ? std::max(0.0, exchange_seconds(all) - exchange_seconds(none)) / static_cast<double>(totals.k * entry) : 0;
  double ready = 0;
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const FusedTensor& tensor = tensors[i];
    const std::int64_t k = k_of(config, tensor);
    if (totals.count > 0 && !tensor.dense)
      ready += all.select * static_cast<double>(tensor.count) / static_cast<double>(totals.count);
    setup.line.push_back({static_cast<int>(i), tensor.dense ? 0 : tensor.count,
                          tensor.dense ? tensor.count * type_bytes(config.type) : k * entry, ready,
                          tensor.count * type_bytes(config.type), tensor.dense});
  }
  return setup;
}

}  // namespace

std::shared_ptr<FusedImpl> make_fused(std::shared_ptr<CommunicatorState> comm, const FusionConfig& config,
                                      std::span<const FusedTensor> tensors) {
  Lease lease = agree_on_config(*comm, config, tensors);
  static_cast<void>(comm->agreed_machine());
  FusionSetup setup;
  comm->agree("fusing tensors", "fused", config.name, [&] { setup = set_up(*comm, config, tensors); });
  return make_typed_fused(std::move(comm), std::move(setup), std::move(lease), tensors);
}

}  // namespace weir::detail
