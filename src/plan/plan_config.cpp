#include "plan/plan_config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/input_error.hpp"
#include "contribution/threshold.hpp"

namespace weir {
namespace {

constexpr double warmup_density = 0.25;  // DGC starts at a sparsity of 75 %
constexpr std::int64_t most_elements = std::int64_t{1} << 48;
}  // namespace

std::int64_t type_bytes(DataType type) { return type == DataType::float64 ? 8 : type == DataType::float32 ? 4 : 2; }

namespace {

void check_memory(const AllreduceConfig& c) {
  if (c.memory == MemorySpace::host) {
    require(c.type <= DataType::float64, "type is {}: in host memory it must be float32 or float64; 16-bit types need memory cuda",
            name_of(c.type));
    require(is_automatic(c.algorithm) || find_allreduce(c.algorithm).host_memory,
            "algorithm is {}: it needs memory cuda; in host memory dense_ring does the same", c.algorithm);
    return;
  }
  if (c.algorithm == "auto_sparse") return;
  const bool linear = !c.compressor.empty() && c.algorithm != "auto" && c.compressor != "none" &&
                      compress::find_compressor(c.compressor).carriage == compress::Carriage::linear;
  require(
      c.algorithm != "auto" && (linear || find_allreduce(c.algorithm).cuda_memory),
      "algorithm is {}: in CUDA memory it must be sparse, auto_sparse, dense_nccl or dense_torus2d, packed, or sum what a linear "
      "compressor makes (power_sgd, shared_random_k)",
      c.algorithm);
}

/// Returns true if a compressor that the configuration names may pick the largest entries.
bool picks_largest(const AllreduceConfig& c) {
  if (c.compressor.empty()) return true;
  const std::vector<compress::Compressor> compressors = compress::make_compressors(c.compressor, c.compressor_parameters);
  return std::any_of(compressors.begin(), compressors.end(), [](const compress::Compressor& compressor) {
    return compressor && compressor.row->carriage == compress::Carriage::sparse &&
           compressor.row->picking == compress::Picking::largest;
  });
}

/// Returns the exchange of `row` with the given `parameters`.
ExchangeSpec exchange_of(const AllreduceConfig& c, const AllreduceRow& row, Parameters parameters) {
  const ThresholdMethod threshold = threshold_in_force(c, row.threshold);
  ExchangeSpec spec;
  spec.count = c.count;
  spec.type = c.type;
  spec.memory = c.memory;
  spec.final_k = final_k(c);
  spec.largest_k = largest_k(c);
  spec.at_most_k = threshold.at_most_k();
  spec.largest_local = most_selected(spec.at_most_k, spec.count, spec.largest_k);
  spec.reuse_period = threshold.period();
  spec.wire_format = c.wire_format;
  spec.wire_values = c.wire_values;
  spec.parameters = std::move(parameters);
  row.check_parameters(spec);
  return spec;
}

/// Checks the parameters of all algorithms, including those that automatic choice will not take, so that an error shows on every
/// machine.
void check_parameters(const AllreduceConfig& c) {
  if (!is_automatic(c.algorithm)) {
    static_cast<void>(exchange_of(c));
    return;
  }
  for (const AllreduceRow& row : allreduce_registry())
    static_cast<void>(exchange_of(c, row, parameters_if_chosen(row, c.algorithm_parameters)));
}

}  // namespace

ThresholdMethod threshold_in_force(const AllreduceConfig& c, std::string_view fixed) {
  ThresholdMethod asked = threshold_of(c, fixed);
  return picks_largest(c) ? asked : make_threshold("exact");
}

ExchangeSpec exchange_of(const AllreduceConfig& c) {
  const AllreduceRow& row = find_allreduce(c.algorithm);
  return exchange_of(c, row, parameters_of(row, c.algorithm_parameters));
}

void check_config(const AllreduceConfig& c) {
  require(c.count >= 0, "count is {}: it must not be negative", c.count);
  check_fields(c);
  check_memory(c);
  check_compression(c);
  const bool sparse = c.algorithm != "auto" && (c.algorithm == "auto_sparse" || find_allreduce(c.algorithm).sparse());
  if (c.k == -1) {
    require(c.density > 0 && c.density <= 1, "density is {}: it must be above 0 and at most 1, for example 0.01", c.density);
  } else {
    require(c.k >= 0 && c.k <= c.count, "k is {}: it must be between 0 and the count {}, or -1 to follow from density", c.k,
            c.count);
  }
  require(!sparse || c.count <= std::numeric_limits<std::uint32_t>::max(),
          "count is {}: sparse algorithms take up to 2^32 - 1 elements; split the tensor", c.count);
  require(c.count <= most_elements, "count is {}: it must be at most 2^48; split the tensor", c.count);
  require(c.wire_values == WireValues::native || c.type != DataType::float64,
          "wire_values is {}: it needs float32, and type is {}; choose native", name_of(c.wire_values), name_of(c.type));
  check_parameters(c);
}

namespace {

/// Calls put(field, bits) for each field on which ranks must agree.
struct AgreedFieldsOfPlans {
  template <class Put>
  void operator()(const AllreduceConfig& c, Put&& put) const {
    AgreedFields{}(c, put);
    put(CardField{"k (from density)"}, static_cast<std::uint64_t>(final_k(c)));
  }
};

}  // namespace

ConfigCard make_card(const AllreduceConfig& c) {
  ConfigCard card;
  card.outcome = detail::outcome_of([&] {
    check_config(c);
    card.set_texts({algorithm_text(c.algorithm, c.algorithm_parameters), compression_text(c), threshold_of(c, {}).text()});
    set_fields<AgreedFieldsOfPlans>(card, c);
  });
  return card;
}

std::span<const CardField> config_fields() { return card_fields<AllreduceConfig, AgreedFieldsOfPlans>(); }

std::int64_t final_k(const AllreduceConfig& c) {
  if (c.k >= 0) return c.k;
  return c.count == 0 ? 0 : std::max<std::int64_t>(1, std::llround(c.density * static_cast<double>(c.count)));
}

namespace {

/// Returns base^(part / whole), for part < whole <= 2^62, with the same bits on every processor. std::pow does not promise that,
/// and k needs it.
double fractional_power(double base, std::int64_t part, std::int64_t whole) {
  std::uint64_t digits = 0;  // of part / whole in binary, after the point
  for (int i = 0; i < 64; ++i) {
    part *= 2;
    digits = digits << 1 | (part >= whole ? 1 : 0);
    if (part >= whole) part -= whole;
  }
  // x^0.101 = sqrt(x * sqrt(1 * sqrt(x))): IEEE 754 prescribes every bit of products and square roots.
  double power = 1;
  for (int i = 0; i < 64; ++i, digits >>= 1) power = std::sqrt((digits & 1) != 0 ? base * power : power);
  return power;
}

}  // namespace

std::int64_t scheduled_k(const AllreduceConfig& c, std::int64_t iteration) {
  if (iteration < c.dense_iterations) return -1;
  const std::int64_t target = final_k(c);
  const std::int64_t step = iteration - c.dense_iterations;
  const double target_density = c.count == 0 ? 1 : static_cast<double>(target) / static_cast<double>(c.count);
  if (step >= c.warmup_iterations || target_density >= warmup_density || target == 0) return target;
  const double density = warmup_density * fractional_power(target_density / warmup_density, step, c.warmup_iterations);
  return std::max(target, static_cast<std::int64_t>(std::llround(density * static_cast<double>(c.count))));
}

std::int64_t largest_k(const AllreduceConfig& c) { return std::max<std::int64_t>(0, scheduled_k(c, c.dense_iterations)); }

Error gradient_error(ErrorReport input_error, const AllreduceConfig& config) {
  const auto type = name_of(config.type);
  const bool scales_up = input_error.kind<InputError>() == InputError::non_finite && compressor_of(config).scales_up();
  const std::string_view or_huge = scales_up ? ", or a value that is infinite times n / k (unbiased=1)" : "";
  const int rank = input_error.rank();
  switch (input_error.kind<InputError>()) {
    case InputError::non_finite:
      if (find_allreduce(config.algorithm).sharded)  // the value was found in the sum of a node's shard
        return {WEIR_ERR_NON_FINITE,
                fmt::format("plan '{}': the gradients on the node of rank {} hold, or add up to, NaN or infinity{}; gradient and "
                            "residual are as before. Set non_finite to skip or propagate to accept it",
                            config.name, rank, or_huge)};
      return {WEIR_ERR_NON_FINITE,
              fmt::format("plan '{}': the gradient of rank {} holds NaN or infinity{}; gradient and residual are as before. "
                          "Set non_finite to skip or propagate to accept it",
                          config.name, rank, or_huge)};
    case InputError::null_pointer:
      return {WEIR_ERR_ARGUMENT, fmt::format("plan '{}': rank {} gave a null gradient; give {} elements of {}{}", config.name, rank,
                                             config.count, type, refused_by_binding)};
    case InputError::misaligned:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': the gradient of rank {} is not aligned to its type {}", config.name, rank, type)};
    case InputError::wrong_count:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': rank {} gave a gradient of {}{} elements; the plan takes {}", config.name, rank,
                          input_error.detail() == ErrorReport::most_detail ? "at least " : "", input_error.detail(), config.count)};
    case InputError::wrong_type:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': rank {} gave a gradient of another type; the plan takes {}", config.name, rank, type)};
    case InputError::dense_only:
      if (!find_allreduce(config.algorithm).sparse() || config.error_feedback == Feedback::ef21)
        return {WEIR_ERR_ARGUMENT,
                fmt::format(
                    "plan '{}': rank {} asked for a sparse result; {}{} has none: use run or start instead of their sparse forms",
                    config.name, rank, config.algorithm, config.error_feedback == Feedback::ef21 ? " with ef21" : "")};
      return {
          WEIR_ERR_ARGUMENT,
          fmt::format(
              "plan '{}': rank {} asked for a sparse result of a dense iteration; use run or start instead of their sparse forms",
              config.name, rank)};
    case InputError::stream_of_host_plan:
    case InputError::device_memory:
    case InputError::host_memory:
    case InputError::other_device:
    case InputError::bad_stream:
      return {WEIR_ERR_ARGUMENT, fmt::format("plan '{}': {}", config.name,
                                             memory_error_text(input_error.kind<InputError>(), rank, "plan", "gradient"))};
    case InputError::nccl_aborted:
      return {WEIR_ERR_STATE,
              fmt::format("plan '{}': NCCL was aborted on rank {} after an error. Make a new communicator and start over",
                          config.name, rank)};
    case InputError::in_use:
      return {WEIR_ERR_ARGUMENT,
              fmt::format(
                  "plan '{}': the gradient of rank {} overlaps that of another run in flight, which will write its update there: "
                  "wait for that run first, or give each plan an array of its own",
                  config.name, rank)};
    case InputError::none:
      break;
  }
  return {WEIR_ERR_INTERNAL, fmt::format("plan '{}': unknown input error {:#x}", config.name, input_error.word())};
}

}  // namespace weir
