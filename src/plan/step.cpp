#include "plan/step.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "collectives/switch_groups.hpp"
#include "plan/plan_config.hpp"

namespace weir::detail {
namespace {

AllreduceConfig in_force(AllreduceConfig config, const ExchangeSpec& whole, const compress::Compressor& compressor) {
  config.error_feedback = feedback_of(config, compressor);
  config.algorithm_parameters = whole.parameters.text();
  config.compressor = compressor ? compressor.row->name : "none";
  config.compressor_parameters = compressor.parameters.text();
  const AllreduceRow& row = find_allreduce(config.algorithm);
  if (!row.sparse()) return config;
  const ThresholdMethod threshold = threshold_in_force(config, row.threshold);
  config.threshold = threshold.row->name;
  config.threshold_parameters = threshold.parameters.text();
  return config;
}

/// Returns the algorithm's row, or the row that replaces it if the transport lacks what the algorithm needs. Logs what differs from
/// the name.
const AllreduceRow& row_in_force(const CommunicatorState& comm, const AllreduceConfig& config) {
  const AllreduceRow& row = find_allreduce(config.algorithm);
  const auto say = [&](std::string_view what) {
    log(comm.settings.log, LogLevel::info, "rank {}: plan '{}': {} {}", comm.topology.rank(), config.name, row.name, what);
  };
  if (row.needs_allreduce && comm.transport->native_allreduce() == nullptr) {
    say("runs as dense_ring: the transport has no allreduce of its own");
    return find_allreduce("dense_ring");
  }
  if (row.sharded && comm.topology.largest_node() == 1) say("runs flat: there is one rank per node");
  if (row.by_switch) say(switch_groups_text(comm.topology));
  return row;
}

ExchangeSpec exchange_in_force(const ExchangeSpec& whole, const AllreduceRow& row, const std::optional<ShardMap>& map) {
  ExchangeSpec exchange = whole;
  if (row.sparse() && map && map->mine() >= 0)
    exchange = spec_of_shard(whole, *map, map->mine());
  else if (row.sparse() && map)
    exchange.count = exchange.largest_k = exchange.largest_local = 0;
  exchange.along_switches = row.by_switch && exchange.ranks == whole.topology->node_count();
  return exchange;
}

}  // namespace

ExchangeSpec spec_of_shard(const ExchangeSpec& whole, const ShardMap& map, int shard) {
  ExchangeSpec spec = whole;
  spec.whole = std::make_shared<const ExchangeSpec>(whole);
  spec.count = map.size(shard);
  spec.largest_k = std::min(spec.count, whole.largest_k / map.shards() + 2);
  spec.largest_local = most_selected(spec.at_most_k, spec.count, spec.largest_k);
  spec.ranks = whole.topology->node_count();
  spec.summed = whole.topology->largest_node();
  spec.divisor = 1;
  return spec;
}

Step::Step(const CommunicatorState& comm, const AllreduceConfig& configuration, const ExchangeSpec& whole, bool in_nodes)
    : compressor_(compressor_of(configuration)),
      config_(in_force(configuration, whole, compressor_)),
      row_(row_in_force(comm, config_)),
      map_(in_nodes && row_.sharded ? std::optional<ShardMap>(std::in_place, *whole.topology, whole.count) : std::nullopt),
      exchange_(exchange_in_force(whole, row_, map_)) {}

std::int64_t Step::scheduled(std::int64_t iteration) const {
  if (!row_.sparse()) return -1;
  return iteration - config_.dense_iterations >= config_.warmup_iterations ? exchange_.final_k : scheduled_k(config_, iteration);
}

SelectionSetup Step::selection() const {
  SelectionSetup setup{.count = exchange_.count, .largest_k = exchange_.largest_k};
  if (compressor_.row->picking == compress::Picking::largest) {
    setup.threshold = threshold_of(config_, row_.threshold);
    return setup;
  }
  setup.picking = compressor_.row->picking;
  if (compressor_.row->picking_value != nullptr) setup.picking_value = compressor_.row->picking_value(compressor_.parameters);
  setup.scales_up = compressor_.scales_up();
  return setup;
}

Draw Step::draw(std::int64_t iteration) const {
  return {static_cast<std::uint64_t>(config_.seed), static_cast<std::uint64_t>(iteration),
          static_cast<std::uint32_t>(exchange_.topology->rank())};
}

bool Step::keeps_the_same(const Step& other) const {
  return compressor_.row == other.compressor_.row && compressor_.parameters == other.compressor_.parameters &&
         map_.has_value() == other.map_.has_value();
}

std::int64_t Step::prepare_encoding() {
  const std::string_view why = why_not_encoded();
  if (!why.empty()) fail(WEIR_ERR_STATE, "plan '{}' cannot encode: {}", config_.name, why);
  if (!writer_) writer_.emplace(compressor_, config_.count, exchange_.largest_local, exchange_.wire());
  return writer_->most_bytes();
}

std::string_view Step::why_not_encoded() const {
  if (config_.memory == MemorySpace::cuda) return "its memory is cuda; encode takes host memory";
  if (config_.type == DataType::float64) return "its type is float64; encode takes float32";
  if (!compressor_ || compressor_.row->carriage == compress::Carriage::linear)
    return "its compressor has dense values summed; name one that is sparse or packed, such as top_k or block_quantise";
  if (map_) return "its algorithm sums within nodes first; name a flat one, such as oktopk or packed_allgather";
  if (config_.error_feedback == Feedback::ef21) return "error_feedback is ef21; choose residual or none";
  if (config_.dense_iterations > 0) return "its first runs are dense; dense_iterations must be 0";
  return {};
}

}  // namespace weir::detail
