// fields.hpp: names of enumerators, and the fields of configurations with their limits, for checks, comparison and messages.
// Made by capi/interface/generate.py from interface.toml: change that.
#pragma once

#include <array>
#include <limits>
#include <string_view>
#include <weir/types.hpp>

namespace weir {

/// The names of an enumeration's values, which are 0, 1, 2, ...
template <class Enum>
inline constexpr std::array<std::string_view, 0> names_of{};
// clang-format off
template <>
inline constexpr std::array<std::string_view, 4> names_of<DataType> = {"float32", "float64", "float16", "bfloat16"};
template <>
inline constexpr std::array<std::string_view, 2> names_of<MemorySpace> = {"host", "cuda"};
template <>
inline constexpr std::array<std::string_view, 2> names_of<WireFormat> = {"compact", "coo"};
template <>
inline constexpr std::array<std::string_view, 3> names_of<WireValues> = {"native", "bfloat16", "float16"};
template <>
inline constexpr std::array<std::string_view, 4> names_of<Feedback> = {"none", "residual", "ef21", "automatic"};
template <>
inline constexpr std::array<std::string_view, 3> names_of<NonFinite> = {"error", "skip", "propagate"};
template <>
inline constexpr std::array<std::string_view, 7> names_of<Level> = {"self", "l3", "numa", "socket", "node", "switch", "system"};
template <>
inline constexpr std::array<std::string_view, 4> names_of<Optimizer> = {"sgd", "momentum", "adagrad", "adam"};
template <>
inline constexpr std::array<std::string_view, 3> names_of<Routing> = {"automatic", "direct", "by_node"};
template <>
inline constexpr std::array<std::string_view, 9> names_of<FusionScheme> = {"none", "behind", "ahead", "ahead_inter", "ahead_inter_intra", "omgs", "cupcake", "ahead_fitted", "ahead_tapered"};
template <>
inline constexpr std::array<std::string_view, 4> names_of<OperatorDivision> = {"automatic", "replicated", "node", "all"};
template <>
inline constexpr std::array<std::string_view, 2> names_of<OptimizerRule> = {"lars", "lamb"};
template <>
inline constexpr std::array<std::string_view, 4> names_of<SampleErrors> = {"error", "skip", "retry", "substitute"};
template <>
inline constexpr std::array<std::string_view, 3> names_of<Shuffle> = {"none", "global", "node"};
template <>
inline constexpr std::array<std::string_view, 3> names_of<ProgressDisplay> = {"automatic", "off", "on"};
template <>
inline constexpr std::array<std::string_view, 4> names_of<LogLevel> = {"error", "warn", "info", "debug"};
template <>
inline constexpr std::array<std::string_view, 5> names_of<ElementType> = {"float32", "float64", "int32", "int64", "uint8"};
template <>
inline constexpr std::array<std::string_view, 3> names_of<Distribution> = {"replicated", "block", "local"};
// clang-format on

/// What is known of a field besides its value.
struct FieldInfo {
  std::string_view name;
  bool agreed = true;  ///< equal on all ranks
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  std::string_view most_text{};  ///< as text: "2^48"
  std::string_view example{};  ///< a sensible value; empty where any is
};

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const AllreduceConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "count"}, config.count);
  visit(FieldInfo{.name = "type"}, config.type);
  visit(FieldInfo{.name = "memory"}, config.memory);
  visit(FieldInfo{.name = "density", .agreed = false}, config.density);
  visit(FieldInfo{.name = "k", .agreed = false}, config.k);
  visit(FieldInfo{.name = "algorithm"}, config.algorithm);
  visit(FieldInfo{.name = "algorithm_parameters"}, config.algorithm_parameters);
  visit(FieldInfo{.name = "trial_iterations", .least = 0, .most = 1000000, .most_text = "1000000", .example = "8"}, config.trial_iterations);
  visit(FieldInfo{.name = "compressor"}, config.compressor);
  visit(FieldInfo{.name = "compressor_parameters"}, config.compressor_parameters);
  visit(FieldInfo{.name = "seed"}, config.seed);
  visit(FieldInfo{.name = "error_feedback"}, config.error_feedback);
  visit(FieldInfo{.name = "feedback_decay", .least = 0, .most = 1, .most_text = "1", .example = "0.95"}, config.feedback_decay);
  visit(FieldInfo{.name = "feedback_gain"}, config.feedback_gain);
  visit(FieldInfo{.name = "average"}, config.average);
  visit(FieldInfo{.name = "threshold"}, config.threshold);
  visit(FieldInfo{.name = "threshold_parameters"}, config.threshold_parameters);
  visit(FieldInfo{.name = "wire_format"}, config.wire_format);
  visit(FieldInfo{.name = "wire_values"}, config.wire_values);
  visit(FieldInfo{.name = "threads", .agreed = false, .least = 0, .most = 1024, .most_text = "1024", .example = "2"}, config.threads);
  visit(FieldInfo{.name = "non_finite"}, config.non_finite);
  visit(FieldInfo{.name = "dense_iterations", .least = 0, .most = 0x1p48, .most_text = "2^48"}, config.dense_iterations);
  visit(FieldInfo{.name = "warmup_iterations", .least = 0, .most = 0x1p48, .most_text = "2^48"}, config.warmup_iterations);
  visit(FieldInfo{.name = "priority", .agreed = false}, config.priority);
  visit(FieldInfo{.name = "name", .agreed = false}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const EmbeddingConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "rows"}, config.rows);
  visit(FieldInfo{.name = "width"}, config.width);
  visit(FieldInfo{.name = "largest_batch"}, config.largest_batch);
  visit(FieldInfo{.name = "memory"}, config.memory);
  visit(FieldInfo{.name = "exchange"}, config.exchange);
  visit(FieldInfo{.name = "optimizer"}, config.optimizer);
  visit(FieldInfo{.name = "learning_rate"}, config.learning_rate);
  visit(FieldInfo{.name = "beta1"}, config.beta1);
  visit(FieldInfo{.name = "beta2"}, config.beta2);
  visit(FieldInfo{.name = "epsilon"}, config.epsilon);
  visit(FieldInfo{.name = "average"}, config.average);
  visit(FieldInfo{.name = "wire_values"}, config.wire_values);
  visit(FieldInfo{.name = "routing"}, config.routing);
  visit(FieldInfo{.name = "seed"}, config.seed);
  visit(FieldInfo{.name = "initial_range"}, config.initial_range);
  visit(FieldInfo{.name = "priority", .agreed = false}, config.priority);
  visit(FieldInfo{.name = "delayed_priority", .agreed = false}, config.delayed_priority);
  visit(FieldInfo{.name = "name", .agreed = false}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const CheckpointConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "folder", .agreed = false}, config.folder);
  visit(FieldInfo{.name = "run", .agreed = false}, config.run);
  visit(FieldInfo{.name = "keep", .least = 1, .most = 1000000, .most_text = "1000000", .example = "2"}, config.keep);
  visit(FieldInfo{.name = "compression", .least = 0, .most = 9, .most_text = "9", .example = "1"}, config.compression);
  visit(FieldInfo{.name = "strict"}, config.strict);
  visit(FieldInfo{.name = "name", .agreed = false}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const FusedTensor& config, Visit&& visit) {
  visit(FieldInfo{.name = "name"}, config.name);
  visit(FieldInfo{.name = "count"}, config.count);
  visit(FieldInfo{.name = "density"}, config.density);
  visit(FieldInfo{.name = "k"}, config.k);
  visit(FieldInfo{.name = "dense"}, config.dense);
  visit(FieldInfo{.name = "optional"}, config.optional);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const FusionConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "scheme"}, config.scheme);
  visit(FieldInfo{.name = "buffer_bytes", .least = 1, .most = 0x1p48, .most_text = "2^48", .example = "26214400"}, config.buffer_bytes);
  visit(FieldInfo{.name = "type"}, config.type);
  visit(FieldInfo{.name = "density"}, config.density);
  visit(FieldInfo{.name = "algorithm"}, config.algorithm);
  visit(FieldInfo{.name = "algorithm_parameters"}, config.algorithm_parameters);
  visit(FieldInfo{.name = "threshold"}, config.threshold);
  visit(FieldInfo{.name = "threshold_parameters"}, config.threshold_parameters);
  visit(FieldInfo{.name = "error_feedback"}, config.error_feedback);
  visit(FieldInfo{.name = "average"}, config.average);
  visit(FieldInfo{.name = "wire_format"}, config.wire_format);
  visit(FieldInfo{.name = "wire_values"}, config.wire_values);
  visit(FieldInfo{.name = "non_finite"}, config.non_finite);
  visit(FieldInfo{.name = "priority", .agreed = false}, config.priority);
  visit(FieldInfo{.name = "name", .agreed = false}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const OperatorPart& config, Visit&& visit) {
  visit(FieldInfo{.name = "seconds"}, config.seconds);
  visit(FieldInfo{.name = "result_bytes"}, config.result_bytes);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const OperatorConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "division"}, config.division);
  visit(FieldInfo{.name = "variable"}, config.variable);
  visit(FieldInfo{.name = "priority", .agreed = false}, config.priority);
  visit(FieldInfo{.name = "name", .agreed = false}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const OptimizedLayer& config, Visit&& visit) {
  visit(FieldInfo{.name = "name"}, config.name);
  visit(FieldInfo{.name = "count"}, config.count);
  visit(FieldInfo{.name = "excluded"}, config.excluded);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const OptimizerConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "rule"}, config.rule);
  visit(FieldInfo{.name = "momentum"}, config.momentum);
  visit(FieldInfo{.name = "weight_decay"}, config.weight_decay);
  visit(FieldInfo{.name = "trust_coefficient"}, config.trust_coefficient);
  visit(FieldInfo{.name = "largest_rate"}, config.largest_rate);
  visit(FieldInfo{.name = "beta1"}, config.beta1);
  visit(FieldInfo{.name = "beta2"}, config.beta2);
  visit(FieldInfo{.name = "epsilon"}, config.epsilon);
  visit(FieldInfo{.name = "norms"}, config.norms);
  visit(FieldInfo{.name = "update"}, config.update);
  visit(FieldInfo{.name = "type"}, config.type);
  visit(FieldInfo{.name = "memory"}, config.memory);
  visit(FieldInfo{.name = "priority", .agreed = false}, config.priority);
  visit(FieldInfo{.name = "name", .agreed = false}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const SparseAdamConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "count", .least = 0, .most = 4294967295, .most_text = "4294967295"}, config.count);
  visit(FieldInfo{.name = "beta1"}, config.beta1);
  visit(FieldInfo{.name = "beta2"}, config.beta2);
  visit(FieldInfo{.name = "epsilon"}, config.epsilon);
  visit(FieldInfo{.name = "exact"}, config.exact);
  visit(FieldInfo{.name = "name"}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const SampleCacheConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "folder", .agreed = false}, config.folder);
  visit(FieldInfo{.name = "folder_bytes", .agreed = false, .least = 0, .most = 0x1p60, .most_text = "2^60", .example = "107374182400"}, config.folder_bytes);
  visit(FieldInfo{.name = "memory_bytes", .least = -1, .most = 0x1p48, .most_text = "2^48", .example = "17179869184"}, config.memory_bytes);
  visit(FieldInfo{.name = "largest_batch", .least = 1, .most = 0x1p24, .most_text = "2^24", .example = "256"}, config.largest_batch);
  visit(FieldInfo{.name = "in_flight", .least = 1, .most = 64, .most_text = "64", .example = "2"}, config.in_flight);
  visit(FieldInfo{.name = "pack_samples", .least = 1, .most = 1048576, .most_text = "1048576", .example = "64"}, config.pack_samples);
  visit(FieldInfo{.name = "threads", .agreed = false, .least = 1, .most = 256, .most_text = "256", .example = "4"}, config.threads);
  visit(FieldInfo{.name = "on_error"}, config.on_error);
  visit(FieldInfo{.name = "retries", .least = 0, .most = 1000, .most_text = "1000", .example = "3"}, config.retries);
  visit(FieldInfo{.name = "priority", .agreed = false}, config.priority);
  visit(FieldInfo{.name = "name"}, config.name);
}
// clang-format on

/// visit(FieldInfo, value) for every field, in the order of the struct.
template <class Visit>
// clang-format off
void visit_fields(const SampleLoaderConfig& config, Visit&& visit) {
  visit(FieldInfo{.name = "batch", .least = 1, .most = 0x1p24, .most_text = "2^24", .example = "32"}, config.batch);
  visit(FieldInfo{.name = "seed"}, config.seed);
  visit(FieldInfo{.name = "exchanged_share", .least = 0, .most = 1, .most_text = "1"}, config.exchanged_share);
  visit(FieldInfo{.name = "shuffle"}, config.shuffle);
  visit(FieldInfo{.name = "progress", .agreed = false}, config.progress);
}
// clang-format on

}  // namespace weir
