// convert.hpp: structs of C to those of C++ and back.
// Made by capi/interface/generate.py from interface.toml: change that.
#pragma once

#include <weir/types.h>

#include <algorithm>
#include <weir/types.hpp>

namespace weir::capi {

inline AllreduceConfig from_c(const weir_allreduce_config& c) {
  AllreduceConfig config;
  config.count = c.count;
  config.type = static_cast<DataType>(c.type);
  config.memory = static_cast<MemorySpace>(c.memory);
  config.density = c.density;
  config.k = c.k;
  config.algorithm = c.algorithm != nullptr ? c.algorithm : "";
  config.algorithm_parameters = c.algorithm_parameters != nullptr ? c.algorithm_parameters : "";
  config.trial_iterations = c.trial_iterations;
  config.compressor = c.compressor != nullptr ? c.compressor : "";
  config.compressor_parameters = c.compressor_parameters != nullptr ? c.compressor_parameters : "";
  config.seed = c.seed;
  config.error_feedback = static_cast<Feedback>(c.error_feedback);
  config.feedback_decay = c.feedback_decay;
  config.feedback_gain = c.feedback_gain;
  config.average = c.average != 0;
  config.threshold = c.threshold != nullptr ? c.threshold : "";
  config.threshold_parameters = c.threshold_parameters != nullptr ? c.threshold_parameters : "";
  config.wire_format = static_cast<WireFormat>(c.wire_format);
  config.wire_values = static_cast<WireValues>(c.wire_values);
  config.threads = c.threads;
  config.non_finite = static_cast<NonFinite>(c.non_finite);
  config.dense_iterations = c.dense_iterations;
  config.warmup_iterations = c.warmup_iterations;
  config.priority = c.priority;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_allreduce_config to_c(const AllreduceConfig& full) {
  weir_allreduce_config c{};
  c.count = full.count;
  c.type = static_cast<std::int32_t>(full.type);
  c.memory = static_cast<std::int32_t>(full.memory);
  c.density = full.density;
  c.k = full.k;
  c.algorithm = full.algorithm.c_str();
  c.algorithm_parameters = full.algorithm_parameters.c_str();
  c.trial_iterations = full.trial_iterations;
  c.compressor = full.compressor.c_str();
  c.compressor_parameters = full.compressor_parameters.c_str();
  c.seed = full.seed;
  c.error_feedback = static_cast<std::int32_t>(full.error_feedback);
  c.feedback_decay = full.feedback_decay;
  c.feedback_gain = full.feedback_gain;
  c.average = full.average ? 1 : 0;
  c.threshold = full.threshold.c_str();
  c.threshold_parameters = full.threshold_parameters.c_str();
  c.wire_format = static_cast<std::int32_t>(full.wire_format);
  c.wire_values = static_cast<std::int32_t>(full.wire_values);
  c.threads = full.threads;
  c.non_finite = static_cast<std::int32_t>(full.non_finite);
  c.dense_iterations = full.dense_iterations;
  c.warmup_iterations = full.warmup_iterations;
  c.priority = full.priority;
  c.name = full.name.c_str();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_statistics to_c(const Statistics& full) {
  weir_statistics c{};
  c.iteration = full.iteration;
  c.k = full.k;
  c.selected_local = full.selected_local;
  c.selected_global = full.selected_global;
  c.payload_bytes_sent = full.payload_bytes_sent;
  c.payload_bytes_received = full.payload_bytes_received;
  c.control_bytes_sent = full.control_bytes_sent;
  c.control_bytes_received = full.control_bytes_received;
  std::copy(full.bytes_sent.begin(), full.bytes_sent.end(), c.bytes_sent);
  std::copy(full.bytes_received.begin(), full.bytes_received.end(), c.bytes_received);
  std::copy(full.messages_sent.begin(), full.messages_sent.end(), c.messages_sent);
  std::copy(full.messages_received.begin(), full.messages_received.end(), c.messages_received);
  c.seconds_select = full.seconds_select;
  c.seconds_in_node = full.seconds_in_node;
  c.seconds_exchange = full.seconds_exchange;
  c.seconds_apply = full.seconds_apply;
  c.seconds_total = full.seconds_total;
  c.seconds_waited = full.seconds_waited;
  c.skipped = full.skipped ? 1 : 0;
  return c;
}

/// `struct_size` is left to the caller.
inline weir_algorithm_info to_c(const AlgorithmInfo& full) {
  weir_algorithm_info c{};
  c.name = full.name.data();
  c.description = full.description.data();
  c.sparse = full.sparse ? 1 : 0;
  c.host_memory = full.host_memory ? 1 : 0;
  c.cuda_memory = full.cuda_memory ? 1 : 0;
  c.packed = full.packed ? 1 : 0;
  c.parameters = full.parameters.data();
  c.counters = full.counters.data();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_compressor_info to_c(const CompressorInfo& full) {
  weir_compressor_info c{};
  c.name = full.name.data();
  c.description = full.description.data();
  c.source = full.source.data();
  c.carriage = full.carriage.data();
  c.parameters = full.parameters.data();
  c.random = full.random ? 1 : 0;
  c.feedback = full.feedback ? 1 : 0;
  return c;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_encoded_info to_c(const EncodedInfo& full) {
  weir_encoded_info c{};
  c.version = full.version;
  c.count = full.count;
  c.entries = full.entries;
  c.bytes = full.bytes;
  c.compressor = full.compressor.c_str();
  c.parameters = full.parameters.c_str();
  return c;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_setting_info to_c(const SettingInfo& full) {
  weir_setting_info c{};
  c.name = full.name.c_str();
  c.value = full.value.c_str();
  c.origin = full.origin.c_str();
  c.description = full.description.c_str();
  return c;
}

inline EmbeddingConfig from_c(const weir_embedding_config& c) {
  EmbeddingConfig config;
  config.rows = c.rows;
  config.width = c.width;
  config.largest_batch = c.largest_batch;
  config.memory = static_cast<MemorySpace>(c.memory);
  config.exchange = c.exchange != nullptr ? c.exchange : "";
  config.optimizer = static_cast<Optimizer>(c.optimizer);
  config.learning_rate = c.learning_rate;
  config.beta1 = c.beta1;
  config.beta2 = c.beta2;
  config.epsilon = c.epsilon;
  config.average = c.average != 0;
  config.wire_values = static_cast<WireValues>(c.wire_values);
  config.routing = static_cast<Routing>(c.routing);
  config.seed = static_cast<std::uint64_t>(c.seed);
  config.initial_range = c.initial_range;
  config.priority = c.priority;
  config.delayed_priority = c.delayed_priority;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_embedding_config to_c(const EmbeddingConfig& full) {
  weir_embedding_config c{};
  c.rows = full.rows;
  c.width = full.width;
  c.largest_batch = full.largest_batch;
  c.memory = static_cast<std::int32_t>(full.memory);
  c.exchange = full.exchange.c_str();
  c.optimizer = static_cast<std::int32_t>(full.optimizer);
  c.learning_rate = full.learning_rate;
  c.beta1 = full.beta1;
  c.beta2 = full.beta2;
  c.epsilon = full.epsilon;
  c.average = full.average ? 1 : 0;
  c.wire_values = static_cast<std::int32_t>(full.wire_values);
  c.routing = static_cast<std::int32_t>(full.routing);
  c.seed = static_cast<std::int64_t>(full.seed);
  c.initial_range = full.initial_range;
  c.priority = full.priority;
  c.delayed_priority = full.delayed_priority;
  c.name = full.name.c_str();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_embedding_statistics to_c(const EmbeddingStatistics& full) {
  weir_embedding_statistics c{};
  c.tokens = full.tokens;
  c.distinct_rows = full.distinct_rows;
  c.prior_rows = full.prior_rows;
  c.updated_rows = full.updated_rows;
  c.prefetched = full.prefetched ? 1 : 0;
  c.by_node = full.by_node ? 1 : 0;
  c.id_bytes_sent = full.id_bytes_sent;
  c.lookup_bytes_sent = full.lookup_bytes_sent;
  c.gradient_bytes_sent = full.gradient_bytes_sent;
  c.control_bytes_sent = full.control_bytes_sent;
  std::copy(full.bytes_sent.begin(), full.bytes_sent.end(), c.bytes_sent);
  c.seconds_lookup = full.seconds_lookup;
  c.seconds_coalesce = full.seconds_coalesce;
  c.seconds_prior = full.seconds_prior;
  c.seconds_update = full.seconds_update;
  return c;
}

/// `struct_size` is left to the caller.
inline weir_exchange_info to_c(const ExchangeInfo& full) {
  weir_exchange_info c{};
  c.name = full.name.data();
  c.description = full.description.data();
  return c;
}

inline CheckpointConfig from_c(const weir_checkpoint_config& c) {
  CheckpointConfig config;
  config.folder = c.folder != nullptr ? c.folder : "";
  config.run = c.run != nullptr ? c.run : "";
  config.keep = c.keep;
  config.compression = c.compression;
  config.strict = c.strict != 0;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_checkpoint_config to_c(const CheckpointConfig& full) {
  weir_checkpoint_config c{};
  c.folder = full.folder.c_str();
  c.run = full.run.c_str();
  c.keep = full.keep;
  c.compression = full.compression;
  c.strict = full.strict ? 1 : 0;
  c.name = full.name.c_str();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_checkpoint_statistics to_c(const CheckpointStatistics& full) {
  weir_checkpoint_statistics c{};
  c.step = full.step;
  c.ranks = full.ranks;
  c.snapshot_bytes = full.snapshot_bytes;
  c.bytes_written = full.bytes_written;
  c.bytes_read = full.bytes_read;
  c.seconds_snapshot = full.seconds_snapshot;
  c.seconds_save = full.seconds_save;
  c.seconds_restore = full.seconds_restore;
  return c;
}

inline FusedTensor from_c(const weir_fused_tensor& c) {
  FusedTensor config;
  config.name = c.name != nullptr ? c.name : "";
  config.count = c.count;
  config.density = c.density;
  config.k = c.k;
  config.dense = c.dense != 0;
  config.optional = c.optional != 0;
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_fused_tensor to_c(const FusedTensor& full) {
  weir_fused_tensor c{};
  c.name = full.name.c_str();
  c.count = full.count;
  c.density = full.density;
  c.k = full.k;
  c.dense = full.dense ? 1 : 0;
  c.optional = full.optional ? 1 : 0;
  return c;
}

inline FusionConfig from_c(const weir_fusion_config& c) {
  FusionConfig config;
  config.scheme = static_cast<FusionScheme>(c.scheme);
  config.buffer_bytes = c.buffer_bytes;
  config.type = static_cast<DataType>(c.type);
  config.density = c.density;
  config.algorithm = c.algorithm != nullptr ? c.algorithm : "";
  config.algorithm_parameters = c.algorithm_parameters != nullptr ? c.algorithm_parameters : "";
  config.threshold = c.threshold != nullptr ? c.threshold : "";
  config.threshold_parameters = c.threshold_parameters != nullptr ? c.threshold_parameters : "";
  config.error_feedback = static_cast<Feedback>(c.error_feedback);
  config.average = c.average != 0;
  config.wire_format = static_cast<WireFormat>(c.wire_format);
  config.wire_values = static_cast<WireValues>(c.wire_values);
  config.non_finite = static_cast<NonFinite>(c.non_finite);
  config.priority = c.priority;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_fusion_config to_c(const FusionConfig& full) {
  weir_fusion_config c{};
  c.scheme = static_cast<std::int32_t>(full.scheme);
  c.buffer_bytes = full.buffer_bytes;
  c.type = static_cast<std::int32_t>(full.type);
  c.density = full.density;
  c.algorithm = full.algorithm.c_str();
  c.algorithm_parameters = full.algorithm_parameters.c_str();
  c.threshold = full.threshold.c_str();
  c.threshold_parameters = full.threshold_parameters.c_str();
  c.error_feedback = static_cast<std::int32_t>(full.error_feedback);
  c.average = full.average ? 1 : 0;
  c.wire_format = static_cast<std::int32_t>(full.wire_format);
  c.wire_values = static_cast<std::int32_t>(full.wire_values);
  c.non_finite = static_cast<std::int32_t>(full.non_finite);
  c.priority = full.priority;
  c.name = full.name.c_str();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_fusion_statistics to_c(const FusionStatistics& full) {
  weir_fusion_statistics c{};
  c.iteration = full.iteration;
  c.exchanges = full.exchanges;
  c.tensors_skipped = full.tensors_skipped;
  c.tensors_missing = full.tensors_missing;
  c.buffers_skipped = full.buffers_skipped;
  c.selected_local = full.selected_local;
  c.selected_global = full.selected_global;
  c.payload_bytes_sent = full.payload_bytes_sent;
  c.payload_bytes_received = full.payload_bytes_received;
  c.control_bytes_sent = full.control_bytes_sent;
  c.control_bytes_received = full.control_bytes_received;
  std::copy(full.bytes_sent.begin(), full.bytes_sent.end(), c.bytes_sent);
  std::copy(full.bytes_received.begin(), full.bytes_received.end(), c.bytes_received);
  std::copy(full.messages_sent.begin(), full.messages_sent.end(), c.messages_sent);
  std::copy(full.messages_received.begin(), full.messages_received.end(), c.messages_received);
  c.seconds_select = full.seconds_select;
  c.seconds_exchange = full.seconds_exchange;
  c.seconds_backward = full.seconds_backward;
  c.seconds_waited = full.seconds_waited;
  c.seconds_total = full.seconds_total;
  c.regroupings = full.regroupings;
  c.settled = full.settled ? 1 : 0;
  return c;
}

inline OperatorPart from_c(const weir_operator_part& c) {
  OperatorPart config;
  config.seconds = c.seconds;
  config.result_bytes = c.result_bytes;
  return config;
}

/// `struct_size` is left to the caller.
inline weir_operator_part to_c(const OperatorPart& full) {
  weir_operator_part c{};
  c.seconds = full.seconds;
  c.result_bytes = full.result_bytes;
  return c;
}

inline OperatorConfig from_c(const weir_operator_config& c) {
  OperatorConfig config;
  config.division = static_cast<OperatorDivision>(c.division);
  config.variable = c.variable != 0;
  config.priority = c.priority;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_operator_config to_c(const OperatorConfig& full) {
  weir_operator_config c{};
  c.division = static_cast<std::int32_t>(full.division);
  c.variable = full.variable ? 1 : 0;
  c.priority = full.priority;
  c.name = full.name.c_str();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_operator_statistics to_c(const OperatorStatistics& full) {
  weir_operator_statistics c{};
  c.runs = full.runs;
  c.seconds_work = full.seconds_work;
  c.seconds_gather = full.seconds_gather;
  std::copy(full.bytes_sent.begin(), full.bytes_sent.end(), c.bytes_sent);
  std::copy(full.bytes_received.begin(), full.bytes_received.end(), c.bytes_received);
  std::copy(full.messages_sent.begin(), full.messages_sent.end(), c.messages_sent);
  std::copy(full.messages_received.begin(), full.messages_received.end(), c.messages_received);
  return c;
}

inline OptimizedLayer from_c(const weir_optimized_layer& c) {
  OptimizedLayer config;
  config.name = c.name != nullptr ? c.name : "";
  config.count = c.count;
  config.excluded = c.excluded != 0;
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_optimized_layer to_c(const OptimizedLayer& full) {
  weir_optimized_layer c{};
  c.name = full.name.c_str();
  c.count = full.count;
  c.excluded = full.excluded ? 1 : 0;
  return c;
}

inline OptimizerConfig from_c(const weir_optimizer_config& c) {
  OptimizerConfig config;
  config.rule = static_cast<OptimizerRule>(c.rule);
  config.momentum = c.momentum;
  config.weight_decay = c.weight_decay;
  config.trust_coefficient = c.trust_coefficient;
  config.largest_rate = c.largest_rate;
  config.beta1 = c.beta1;
  config.beta2 = c.beta2;
  config.epsilon = c.epsilon;
  config.norms = static_cast<OperatorDivision>(c.norms);
  config.update = static_cast<OperatorDivision>(c.update);
  config.type = static_cast<DataType>(c.type);
  config.memory = static_cast<MemorySpace>(c.memory);
  config.priority = c.priority;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_optimizer_config to_c(const OptimizerConfig& full) {
  weir_optimizer_config c{};
  c.rule = static_cast<std::int32_t>(full.rule);
  c.momentum = full.momentum;
  c.weight_decay = full.weight_decay;
  c.trust_coefficient = full.trust_coefficient;
  c.largest_rate = full.largest_rate;
  c.beta1 = full.beta1;
  c.beta2 = full.beta2;
  c.epsilon = full.epsilon;
  c.norms = static_cast<std::int32_t>(full.norms);
  c.update = static_cast<std::int32_t>(full.update);
  c.type = static_cast<std::int32_t>(full.type);
  c.memory = static_cast<std::int32_t>(full.memory);
  c.priority = full.priority;
  c.name = full.name.c_str();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_optimizer_statistics to_c(const OptimizerStatistics& full) {
  weir_optimizer_statistics c{};
  c.steps = full.steps;
  c.seconds_norms = full.seconds_norms;
  c.seconds_update = full.seconds_update;
  c.seconds_gather = full.seconds_gather;
  return c;
}

inline SparseAdamConfig from_c(const weir_sparse_adam_config& c) {
  SparseAdamConfig config;
  config.count = c.count;
  config.beta1 = c.beta1;
  config.beta2 = c.beta2;
  config.epsilon = c.epsilon;
  config.exact = c.exact != 0;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_sparse_adam_config to_c(const SparseAdamConfig& full) {
  weir_sparse_adam_config c{};
  c.count = full.count;
  c.beta1 = full.beta1;
  c.beta2 = full.beta2;
  c.epsilon = full.epsilon;
  c.exact = full.exact ? 1 : 0;
  c.name = full.name.c_str();
  return c;
}

inline SampleCacheConfig from_c(const weir_sample_cache_config& c) {
  SampleCacheConfig config;
  config.folder = c.folder != nullptr ? c.folder : "";
  config.folder_bytes = c.folder_bytes;
  config.memory_bytes = c.memory_bytes;
  config.largest_batch = c.largest_batch;
  config.in_flight = c.in_flight;
  config.pack_samples = c.pack_samples;
  config.threads = c.threads;
  config.on_error = static_cast<SampleErrors>(c.on_error);
  config.retries = c.retries;
  config.priority = c.priority;
  config.name = c.name != nullptr ? c.name : "";
  return config;
}

/// `struct_size` is left to the caller. Its texts are those of `full`.
inline weir_sample_cache_config to_c(const SampleCacheConfig& full) {
  weir_sample_cache_config c{};
  c.folder = full.folder.c_str();
  c.folder_bytes = full.folder_bytes;
  c.memory_bytes = full.memory_bytes;
  c.largest_batch = full.largest_batch;
  c.in_flight = full.in_flight;
  c.pack_samples = full.pack_samples;
  c.threads = full.threads;
  c.on_error = static_cast<std::int32_t>(full.on_error);
  c.retries = full.retries;
  c.priority = full.priority;
  c.name = full.name.c_str();
  return c;
}

/// `struct_size` is left to the caller.
inline weir_sample_cache_statistics to_c(const SampleCacheStatistics& full) {
  weir_sample_cache_statistics c{};
  c.batches = full.batches;
  c.asked = full.asked;
  c.from_node = full.from_node;
  c.from_ranks = full.from_ranks;
  c.served = full.served;
  c.kept = full.kept;
  c.decoded = full.decoded;
  c.from_folder = full.from_folder;
  c.from_store = full.from_store;
  c.folder_bytes_read = full.folder_bytes_read;
  c.store_bytes_read = full.store_bytes_read;
  c.damaged = full.damaged;
  c.retried = full.retried;
  c.skipped = full.skipped;
  c.seconds_store = full.seconds_store;
  c.seconds_folder = full.seconds_folder;
  c.seconds_decode = full.seconds_decode;
  c.seconds_waited = full.seconds_waited;
  std::copy(full.bytes_sent.begin(), full.bytes_sent.end(), c.bytes_sent);
  std::copy(full.bytes_received.begin(), full.bytes_received.end(), c.bytes_received);
  return c;
}

inline SampleLoaderConfig from_c(const weir_sample_loader_config& c) {
  SampleLoaderConfig config;
  config.batch = c.batch;
  config.seed = c.seed;
  config.exchanged_share = c.exchanged_share;
  config.shuffle = static_cast<Shuffle>(c.shuffle);
  config.progress = static_cast<ProgressDisplay>(c.progress);
  return config;
}

/// `struct_size` is left to the caller.
inline weir_sample_loader_config to_c(const SampleLoaderConfig& full) {
  weir_sample_loader_config c{};
  c.batch = full.batch;
  c.seed = full.seed;
  c.exchanged_share = full.exchanged_share;
  c.shuffle = static_cast<std::int32_t>(full.shuffle);
  c.progress = static_cast<std::int32_t>(full.progress);
  return c;
}

}  // namespace weir::capi
