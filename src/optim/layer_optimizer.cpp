#include "optim/layer_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <unordered_set>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/floating_point.hpp"
#include "communicator/config_card.hpp"
#include "communicator/input_error.hpp"
#include "optim/parallel_operator.hpp"

namespace weir::optim {
namespace {

std::vector<Block> blocks_of(std::span<const OptimizedLayer> layers) {
  std::vector<Block> blocks;
  std::int64_t at = 0;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::int64_t count = layers[layer].count;
    for (std::int64_t begin = 0; begin < count; begin += block_elements) {
      blocks.push_back({static_cast<int>(layer), begin, std::min(block_elements, count - begin), at});
      at += blocks.back().count;
    }
  }
  return blocks;
}

/// Throws Error(WEIR_ERR_ARGUMENT) saying what is wrong and what would be right, naming the layer.
void check_layers(std::span<const OptimizedLayer> layers) {
  constexpr std::size_t most_layers = std::size_t{1} << 20;
  constexpr std::int64_t most_elements = std::int64_t{1} << 40;
  require(layers.size() <= most_layers, "there are {} layers: at most {} can be optimized", layers.size(), most_layers);
  std::unordered_set<std::string_view> names;
  double elements = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const OptimizedLayer& layer = layers[i];
    const bool plain = std::none_of(layer.name.begin(), layer.name.end(), [](unsigned char c) { return c == '/' || c < ' '; });
    require(!layer.name.empty() && plain && layer.name != "." && layer.name != "..",
            "layer {}: its name is '{}': it must have at least one character, none of them '/' or a control character, and not be "
            "'.' or '..'",
            i, layer.name);
    require(names.insert(layer.name).second, "layer {}: its name, '{}', is that of an earlier one: give each its own", i,
            layer.name);
    require(layer.count >= 0, "layer '{}': count is {}: it must be at least 0", layer.name, layer.count);
    elements += static_cast<double>(layer.count);
  }
  require(elements <= static_cast<double>(most_elements), "layers have {} elements together: at most {} can be optimized", elements,
          most_elements);
}

/// Returns the factor by which the layer's step differs from the learning rate. `other` is the norm of gradients with LARS, and of
/// directions with LAMB.
double rate_of(const OptimizerConfig& config, const OptimizedLayer& layer, double weights, double other) {
  double rate = 1;
  if (!layer.excluded && weights != 0 && other != 0)
    rate = config.rule == OptimizerRule::lamb ? weights / other
                                              : config.trust_coefficient * weights / (other + config.weight_decay * weights);
  return config.largest_rate > 0 ? std::min(rate, config.largest_rate) : rate;
}

/// Returns a text with a line for each layer. layers_of() is its inverse.
std::string text_of(std::span<const OptimizedLayer> layers) {
  std::string text;
  for (const OptimizedLayer& layer : layers)
    text += fmt::format("{}: count {}, excluded {}\n", layer.name, layer.count, layer.excluded ? 1 : 0);
  return text;
}

void check_config(const OptimizerConfig& c) {
  check_fields(c);
  const auto below_one = [](const char* name, double value) {
    require(value >= 0 && value < 1, "{} is {}: it must be from 0 to below 1, for example 0.9", name, value);
  };
  below_one("momentum", c.momentum);
  below_one("beta1", c.beta1);
  below_one("beta2", c.beta2);
  require(c.trust_coefficient > 0 && std::isfinite(c.trust_coefficient),
          "trust_coefficient is {}: it must be above 0, for example 0.001", c.trust_coefficient);
  const auto not_negative = [](const char* name, double value) {
    require(value >= 0 && std::isfinite(value), "{} is {}: it must be at least 0, and finite", name, value);
  };
  not_negative("weight_decay", c.weight_decay);
  not_negative("largest_rate", c.largest_rate);
  const auto epsilon = static_cast<float>(c.epsilon);
  require(std::isfinite(epsilon) && epsilon >= 0 && (epsilon > 0 || c.rule != OptimizerRule::lamb),
          "epsilon is {}: it must be above 0, and finite, also as float32, for example 1e-6", c.epsilon);
  require(c.type != DataType::float64, "type is float64: it must be float32, float16 or bfloat16");
  require(c.rule != OptimizerRule::lamb || c.norms == OperatorDivision::automatic || c.norms == c.update,
          "norms is {} and update is {}: with lamb they are divided alike; leave norms automatic", name_of(c.norms),
          name_of(c.update));
}

ConfigCard optimizer_card(const OptimizerConfig& config, std::span<const OptimizedLayer> layers) {
  ConfigCard card;
  card.outcome = detail::outcome_of([&] {
    check_config(config);
    check_layers(layers);
    card.set_texts({text_of(layers)});
    set_fields(card, config);
  });
  return card;
}

/// Bytes per element that cross the memory bus.
struct BusBytes {
  double norms, update;
};
[[nodiscard]] constexpr BusBytes bus_bytes(const OptimizerConfig& config) {
  const bool narrow = config.type != DataType::float32;
  if (config.rule == OptimizerRule::lamb) return narrow ? BusBytes{24, 20} : BusBytes{24, 16};
  return narrow ? BusBytes{4, 22} : BusBytes{8, 20};
}

/// Calls LayerSpace::end() when a step ends in any way: the caller's stream then waits for the step's work.
struct StepEnd {
  LayerSpace* space;

  ~StepEnd() {
    if (space != nullptr) space->end();
  }
};

}  // namespace

std::vector<OptimizedLayer> layers_of(std::string_view text) {
  std::vector<OptimizedLayer> layers;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.rfind(": count ");
    require(colon != std::string::npos, "'{}' describes no layer", line);
    OptimizedLayer layer{.name = line.substr(0, colon)};
    std::string numbers = line.substr(colon + 1), word;
    std::replace(numbers.begin(), numbers.end(), ',', ' ');
    std::istringstream words(numbers);
    words >> word >> layer.count >> word >> layer.excluded;
    require(!words.fail(), "'{}' describes no layer", line);
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace weir::optim

namespace weir::detail {

using namespace weir::optim;

void OptimizerImpl::open(const OptimizerConfig& configuration, std::span<const OptimizedLayer> described) {
  static_cast<void>(comm->agreed_machine());
  comm->agree("optimizing layers", "optimizer", configuration.name, [&] {
    layers.assign(described.begin(), described.end());
    config = configuration;
    work_.layers = layers;
    work_.blocks = blocks_of(layers);
    sums_.resize(work_.blocks.size());
    rates.assign(layers.size(), 1);
  });
  if (config.memory == MemorySpace::cuda) {  // machine files lack the rates of GPUs, which are rarely worth dividing
    if (config.norms == OperatorDivision::automatic) config.norms = OperatorDivision::replicated;
    if (config.update == OperatorDivision::automatic) config.update = OperatorDivision::replicated;
  }
  const auto make = [&](const char* what, double bytes, std::int64_t result_bytes, OperatorDivision division, double use_seconds) {
    OperatorConfig c{.division = division, .priority = config.priority};
    std::vector<OperatorPart> blocks;
    comm->agree("optimizing layers", "optimizer", config.name, [&] {
      c.name = fmt::format("{}: {}", config.name, what);
      blocks = parts(bytes, result_bytes);
    });
    return make_operator(comm, c, blocks, use_seconds);
  };
  const BusBytes bus = bus_bytes(config);
  // With LAMB, norms are divided as the update is, with the work of both per part.
  const double update_bytes = lamb() ? bus.norms + bus.update : bus.update;
  // Weights are copied into the message, or from it.
  const double copies = 2.0 * static_cast<double>(work_.elements() * element_bytes(config.type)) / bus_rate();
  if (config.update != OperatorDivision::replicated) updates_ = make("update", update_bytes, 0, config.update, copies);
  if (updates_) config.update = updates_->config.division;
  if (config.update == OperatorDivision::replicated) updates_.reset();
  // With LAMB, the rank that steps a block keeps its moments, from which its norms are made.
  norms_ = lamb() ? make("norms", update_bytes, sizeof(SquaredNorms), config.update, 0)
                  : make("norms", bus.norms, sizeof(SquaredNorms), config.norms, 0);
  config.norms = norms_->config.division;
  comm->agree("keeping moments", "optimizer", config.name, [&] {
    share_work();
    step_.weights.resize(layers.size());
    step_.gradients.resize(layers.size());
    step_.rates.resize(layers.size());
    space_ = config.memory == MemorySpace::cuda ? make_device_layers(work_) : make_host_layers(work_);
    reset();
  });
}

/// Returns the bytes/s that cross the memory bus.
double OptimizerImpl::bus_rate() const {
  constexpr double bytes_of_an_add = 3;  // y += x: x and y are read, y is written
  return bytes_of_an_add * comm->agreed_machine().machine.rates.add;
}

/// Returns the blocks as parts with `bytes` of memory traffic per element. `result_bytes` 0: the results are the elements.
std::vector<OperatorPart> OptimizerImpl::parts(double bytes, std::int64_t result_bytes) const {
  const double rate = bus_rate();
  std::vector<OperatorPart> parts;
  for (const Block& block : work_.blocks)
    parts.push_back({.seconds = bytes * static_cast<double>(block.count) / rate,
                     .result_bytes = result_bytes > 0 ? result_bytes : block.count * element_bytes(config.type)});
  return parts;
}

/// Records which blocks this rank sums and steps, as the operators have divided them.
void OptimizerImpl::share_work() {
  work_.config = config;
  work_.gathers = updates_ != nullptr;
  for (std::size_t i = 0; i < work_.blocks.size(); ++i) {
    const bool mine = !updates_ || updates_->works_on(i);
    work_.summed.push_back(norms_->works_on(i) ? 1 : 0);
    work_.kept.push_back(mine ? work_.kept_elements : -1);
    if (mine) work_.kept_elements += work_.blocks[i].count;
  }
}

void OptimizerImpl::reset() {
  space_->reset();
  state_ = {};
  statistics = {};
}

bool OptimizerImpl::retire() noexcept {
  const bool norms = detail::retire(*norms_), updates = !updates_ || detail::retire(*updates_);
  return norms && updates;
}

/// Stores the arguments of a step; returns what is wrong with them.
template <class T>
Outcome OptimizerImpl::take(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate, void* stream) {
  return outcome_of([&] {
    const int rank = comm->topology.rank();
    require(std::is_same_v<T, void> || config.type == DataType::float32,
            "optimizer '{}', rank {}: weights and gradients are given as float32: its type is {}, give them to step_raw",
            config.name, rank, name_of(config.type));
    require(weights.size() == layers.size() && gradients.size() == layers.size(),
            "optimizer '{}', rank {}: there are weights of {} layers and gradients of {}: it has {}", config.name, rank,
            weights.size(), gradients.size(), layers.size());
    require(std::isfinite(learning_rate), "optimizer '{}', rank {}: learning_rate is {}: it must be finite", config.name, rank,
            learning_rate);
    for (std::size_t i = 0; i < layers.size(); ++i)
      require(layers[i].count == 0 || (weights[i] != nullptr && gradients[i] != nullptr),
              "optimizer '{}', rank {}, layer '{}': its weights or its gradient are null{}", config.name, rank, layers[i].name,
              refused_by_binding);
    std::copy(weights.begin(), weights.end(), step_.weights.begin());
    std::copy(gradients.begin(), gradients.end(), step_.gradients.begin());
    step_.stream = stream;
    step_.learning_rate = learning_rate;
    step_.factors = adam_factors(config.beta1, config.beta2, config.epsilon, config.weight_decay, state_.steps + 1);
    const InputError error = space_->enter(step_);
    if (error != InputError::none)
      fail(WEIR_ERR_ARGUMENT, "optimizer '{}': {}", config.name,
           memory_error_text(error, rank, "optimizer", "array of weights or gradients"));
  });
}

template <class T>
void OptimizerImpl::step(std::span<T* const> weights, std::span<const T* const> gradients, double learning_rate, void* stream) {
  const StandardFloatingPoint standard;
  run_step(take(weights, gradients, learning_rate, stream));
}
template void OptimizerImpl::step(std::span<float* const>, std::span<const float* const>, double, void*);
template void OptimizerImpl::step(std::span<void* const>, std::span<const void* const>, double, void*);

void OptimizerImpl::refuse(std::string_view why) {
  Outcome refused;
  refused.set_formatted(WEIR_ERR_ARGUMENT, "optimizer '{}', rank {}: {}", config.name, comm->topology.rank(), why);
  run_step(refused);
}

void OptimizerImpl::run_step(const Outcome& taken) {
  const StepEnd end{taken.failed() ? nullptr : space_.get()};
  const OperatorBody put_sums = [this](int block, std::span<std::byte> result) {
    const SquaredNorms sums = space_->sums(static_cast<std::size_t>(block));
    std::memcpy(result.data(), &sums, sizeof sums);
    return std::ssize(result);
  };
  norms_->start(taken, put_sums, std::as_writable_bytes(std::span(sums_)));
  norms_->wait();
  find_rates();
  space_->begin_update();
  if (updates_) {
    const OperatorBody step = [this](int block, std::span<std::byte> result) {
      space_->step_to(static_cast<std::size_t>(block));
      return std::ssize(result);
    };
    updates_->start({}, step, {space_->message(), static_cast<std::size_t>(work_.message_bytes())});
    updates_->wait();
    for (std::size_t block = 0; block < work_.blocks.size(); ++block) {
      if (work_.kept[block] < 0) space_->take(block);
    }
  } else {
    const Clock::time_point begin = Clock::now();
    for (std::size_t block = 0; block < work_.blocks.size(); ++block) space_->step(block);
    statistics.seconds_update = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  statistics.steps = ++state_.steps;
  statistics.seconds_norms = norms_->statistics.seconds_work;
  if (updates_) statistics.seconds_update = updates_->statistics.seconds_work;
  statistics.seconds_gather = norms_->statistics.seconds_gather + (updates_ ? updates_->statistics.seconds_gather : 0);
}

/// Finds the rate of each layer. Adds the sums of a layer's blocks in order, no matter which rank made them.
void OptimizerImpl::find_rates() {
  for (std::size_t i = 0, layer = 0; layer < layers.size(); ++layer) {
    SquaredNorms all;
    for (; i < work_.blocks.size() && work_.blocks[i].layer == static_cast<int>(layer); ++i) {
      all.weights += sums_[i].weights;
      all.other += sums_[i].other;
    }
    if (!std::isfinite(all.weights) || !std::isfinite(all.other))
      throw AgreedError(
          Error(WEIR_ERR_NON_FINITE, fmt::format("optimizer '{}', layer '{}': the norm of its {} is not finite", config.name,
                                                 layers[layer].name, std::isfinite(all.weights) ? "gradient" : "weights")));
    rates[layer] = rate_of(config, layers[layer], std::sqrt(all.weights), std::sqrt(all.other));
    step_.rates[layer] = static_cast<float>(step_.learning_rate * rates[layer]);
  }
}

bool OptimizerImpl::visits(std::size_t number, bool once) const {
  if (work_.kept[number] < 0 || !once) return work_.kept[number] >= 0;
  // All ranks, one rank per node, or no other rank keep the block, too: each of them visits its share of all blocks.
  const Topology& topology = comm->topology;
  const bool by_all = config.update == OperatorDivision::replicated, by_node = config.update == OperatorDivision::node;
  const auto keepers = static_cast<std::size_t>(by_all ? topology.size() : by_node ? topology.node_count() : 1);
  const auto mine = static_cast<std::size_t>(by_all ? topology.rank() : by_node ? topology.node_of(topology.rank()) : 0);
  return number >= work_.blocks.size() * mine / keepers && number < work_.blocks.size() * (mine + 1) / keepers;
}

void OptimizerImpl::visit_state(StateVisitor& visitor, bool once) {
  visitor.fixed("rank", comm->topology.rank(), Share::layout);
  visitor.fixed("ranks", comm->topology.size(), Share::layout);
  visitor.text("rule", name_of(config.rule));
  visitor.text("type", name_of(config.type));
  visitor.text("layers", text_of(layers));
  visitor.state(state_);
  for (std::size_t i = 0, layer = 0; layer < layers.size(); ++layer) {
    // A rank visits consecutive blocks of a layer.
    std::int64_t kept = 0, begin = 0, count = 0;
    for (; i < work_.blocks.size() && work_.blocks[i].layer == static_cast<int>(layer); ++i) {
      if (!visits(i, once)) continue;
      if (count == 0) kept = work_.kept[i], begin = work_.blocks[i].begin;
      count += work_.blocks[i].count;
    }
    const StateVisitor::Scope scope(visitor, "layer");
    const StateVisitor::Scope name(visitor, layers[layer].name);
    const StateVisitor::Placed placed(visitor, {Share::block, range_of(layers[layer].count, begin, count)});
    space_->visit(visitor, kept, count);
  }
  if (visitor.restores()) statistics = {};
}

StepCost OptimizerImpl::predicted() const {
  const BusBytes bus = bus_bytes(config);
  const double norms_part = lamb() ? bus.norms / (bus.norms + bus.update) : 1;
  const double norms = norms_part * norms_->predicted.work;
  if (!updates_) {
    const std::vector<OperatorPart> all = parts(bus.update, 0);
    return {norms, longest(all, {0, all.size()}), norms_->predicted.gather};
  }
  return {norms, (lamb() ? 1 - norms_part : 1) * updates_->predicted.work, norms_->predicted.gather + updates_->predicted.gather};
}

std::string OptimizerImpl::explanation() const {
  return fmt::format("norms: {}update: {}", norms_->explanation, updates_ ? updates_->explanation : "by every rank\n");
}

std::int64_t OptimizerImpl::memory_bytes() const {
  return space_->memory_bytes() + norms_->memory_bytes() + (updates_ ? updates_->memory_bytes() : 0);
}

std::shared_ptr<OptimizerImpl> make_optimizer(const std::shared_ptr<CommunicatorState>& comm, const OptimizerConfig& config,
                                              std::span<const OptimizedLayer> layers) {
  static_cast<void>(
      open_agreed(*comm, optimizer_card(config, layers), {"optimizer", card_fields<OptimizerConfig>(), {"layers"}}, config.name));
  std::shared_ptr<OptimizerImpl> made;
  comm->agree("making an optimizer", "optimizer", config.name, [&] { made = std::make_shared<OptimizerImpl>(comm); });
  made->open(config, layers);
  return made;
}

}  // namespace weir::detail
