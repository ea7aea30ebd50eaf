#include "plan/plan_config.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "base/error.hpp"
#include "collectives/allreduce.hpp"
#include "communicator/input_error.hpp"

namespace weir {
namespace {

constexpr double warmup_density = 0.25;  // where DGC starts: sparsity 75 %
constexpr std::int64_t most_elements = std::int64_t{1} << 48;
constexpr std::int64_t most_iterations = std::int64_t{1} << 48;  // so that ConfigCard's doubles tell any two apart
constexpr std::int64_t most_trials = 1000000;                    // a plan keeps the time of each

constexpr std::array field_names = {"count",
                                    "type",
                                    "k (from density)",
                                    "error_feedback",
                                    "average",
                                    "threshold",
                                    "samplings",
                                    "threshold_period",
                                    "boundary_period",
                                    "window",
                                    "balance_trigger",
                                    "non_finite",
                                    "dense_iterations",
                                    "warmup_iterations",
                                    "wire_format",
                                    "wire_values",
                                    "trial_iterations",
                                    "memory"};
static_assert(field_names.size() <= std::tuple_size_v<decltype(ConfigCard::fields)>);

constexpr std::array wire_value_names = {"native", "bfloat16", "float16"};

}  // namespace

std::string_view type_name(DataType type) {
  constexpr std::array names = {"float32", "float64", "float16", "bfloat16"};
  return names[static_cast<std::size_t>(type)];
}

std::int64_t type_bytes(DataType type) { return type == DataType::float64 ? 8 : type == DataType::float32 ? 4 : 2; }

namespace {

void check_memory(const AllreduceConfig& c) {
  require(c.memory == MemorySpace::host || c.memory == MemorySpace::cuda, "memory is {}: it must be host (0) or cuda (1)",
          static_cast<int>(c.memory));
  require(c.type >= DataType::float32 && c.type <= DataType::bfloat16,
          "type is {}: it must be float32 (0), float64 (1), float16 (2) or bfloat16 (3)", static_cast<int>(c.type));
  if (c.memory == MemorySpace::host) {
    require(c.type <= DataType::float64, "type is {}: in host memory it must be float32 or float64; 16-bit types need memory cuda",
            type_name(c.type));
    require(c.algorithm == "auto" || c.algorithm == "auto_sparse" || find_allreduce(c.algorithm).host_memory,
            "algorithm is {}: it needs memory cuda; in host memory dense_ring does the same", c.algorithm);
    return;
  }
  require(c.algorithm == "auto_sparse" || (c.algorithm != "auto" && find_allreduce(c.algorithm).cuda_memory),
          "algorithm is {}: in CUDA memory it must be sparse, auto_sparse, dense_nccl or dense_torus2d", c.algorithm);
}

void check_iterations(const char* field, std::int64_t value, std::int64_t least, const char* example) {
  require(value >= least && value <= most_iterations, "{} is {}: it must be between {} and 2^48{}", field, value, least, example);
}

}  // namespace

void check_config(const AllreduceConfig& c) {
  require(c.count >= 0, "count is {}: it must not be negative", c.count);
  check_memory(c);
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
  require(c.threshold >= Threshold::exact && c.threshold <= Threshold::sidco,
          "threshold is {}: it must be exact (0), reuse (1), mstopk (2), sampled (3), gaussian (4) or sidco (5)",
          static_cast<int>(c.threshold));
  require(c.samplings >= 1 && c.samplings <= 1000, "samplings is {}: it must be between 1 and 1000, for example 30", c.samplings);
  require(c.wire_format == WireFormat::compact || c.wire_format == WireFormat::coo,
          "wire_format is {}: it must be compact (0) or coo (1)", static_cast<int>(c.wire_format));
  require(c.wire_values >= WireValues::native && c.wire_values <= WireValues::float16,
          "wire_values is {}: it must be native (0), bfloat16 (1) or float16 (2)", static_cast<int>(c.wire_values));
  require(c.wire_values == WireValues::native || c.type != DataType::float64,
          "wire_values is {}: it needs float32, and type is {}; choose native",
          wire_value_names[static_cast<std::size_t>(c.wire_values)], type_name(c.type));
  require(c.non_finite >= NonFinite::error && c.non_finite <= NonFinite::propagate,
          "non_finite is {}: it must be error (0), skip (1) or propagate (2)", static_cast<int>(c.non_finite));
  check_iterations("threshold_period", c.threshold_period, 1, ", for example 32");
  check_iterations("boundary_period", c.boundary_period, 1, ", for example 64");
  require(c.balance_trigger >= 1, "balance_trigger is {}: it must be at least 1, for example 4", c.balance_trigger);
  require(c.window >= 1 && c.window <= 65536, "window is {}: it must be between 1 and 65536, for example 4", c.window);
  require(c.trial_iterations >= 0 && c.trial_iterations <= most_trials,
          "trial_iterations is {}: it must be between 0 and {}, for example 8", c.trial_iterations, most_trials);
  check_iterations("dense_iterations", c.dense_iterations, 0, "");
  check_iterations("warmup_iterations", c.warmup_iterations, 0, "");
}

ConfigCard make_card(const AllreduceConfig& c) {
  ConfigCard card;
  card.outcome = detail::outcome_of([&] {
    check_config(c);
    card.set_text(c.algorithm);
    card.fields = {static_cast<double>(c.count),
                   static_cast<double>(c.type),
                   static_cast<double>(final_k(c)),
                   static_cast<double>(c.error_feedback),
                   static_cast<double>(c.average),
                   static_cast<double>(c.threshold),
                   static_cast<double>(c.samplings),
                   static_cast<double>(c.threshold_period),
                   static_cast<double>(c.boundary_period),
                   static_cast<double>(c.window),
                   c.balance_trigger,
                   static_cast<double>(c.non_finite),
                   static_cast<double>(c.dense_iterations),
                   static_cast<double>(c.warmup_iterations),
                   static_cast<double>(c.wire_format),
                   static_cast<double>(c.wire_values),
                   static_cast<double>(c.trial_iterations),
                   static_cast<double>(c.memory)};
  });
  return card;
}

std::span<const char* const> config_field_names() { return field_names; }

std::int64_t final_k(const AllreduceConfig& c) {
  if (c.k >= 0) return c.k;
  return c.count == 0 ? 0 : std::max<std::int64_t>(1, std::llround(c.density * static_cast<double>(c.count)));
}

namespace {

/// base^(part / whole), for part < whole <= 2^62: the same bits on every processor, which std::pow does not promise and k needs.
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

Error gradient_error(std::uint64_t input_error, const AllreduceConfig& config) {
  const auto type = type_name(config.type);
  const int rank = input_error_rank(input_error);
  switch (input_error_kind(input_error)) {
    case InputError::non_finite:
      if (find_allreduce(config.algorithm).sharded)  // found in the sum of a node's shard
        return {WEIR_ERR_NON_FINITE,
                fmt::format("plan '{}': the gradients on the node of rank {} hold, or add up to, NaN or infinity; gradient and "
                            "residual are as before. Set non_finite to skip or propagate to accept it",
                            config.name, rank)};
      return {WEIR_ERR_NON_FINITE,
              fmt::format("plan '{}': the gradient of rank {} holds NaN or infinity; gradient and residual are as before. "
                          "Set non_finite to skip or propagate to accept it",
                          config.name, rank)};
    case InputError::null_pointer:
      return {WEIR_ERR_ARGUMENT, fmt::format("plan '{}': rank {} gave a null gradient; give {} elements of {}", config.name, rank,
                                             config.count, type)};
    case InputError::misaligned:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': the gradient of rank {} is not aligned to its type {}", config.name, rank, type)};
    case InputError::wrong_count:
      return {WEIR_ERR_ARGUMENT, fmt::format("plan '{}': rank {} gave a gradient of {}{} elements; the plan takes {}", config.name,
                                             rank, input_error_count(input_error) == most_input_error_count ? "at least " : "",
                                             input_error_count(input_error), config.count)};
    case InputError::wrong_type:
      return {WEIR_ERR_ARGUMENT,
              fmt::format("plan '{}': rank {} gave a gradient of another type; the plan takes {}", config.name, rank, type)};
    case InputError::dense_only:
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
                                             memory_error_text(input_error_kind(input_error), rank, "plan", "gradient"))};
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
  return {WEIR_ERR_INTERNAL, fmt::format("plan '{}': unknown input error {:#x}", config.name, input_error)};
}

}  // namespace weir
