/* Freezes sizes, offsets and values of the C ABI (64-bit systems). Changing a line here breaks users' binaries. */
#include <assert.h>
#include <stddef.h>
#include <weir/checkpoint.h>
#include <weir/embedding.h>
#include <weir/weir.h>

static_assert(sizeof(weir_allreduce_config) == 176, "weir_allreduce_config");
static_assert(offsetof(weir_allreduce_config, count) == 8, "count");
static_assert(offsetof(weir_allreduce_config, k) == 16, "k");
static_assert(offsetof(weir_allreduce_config, density) == 24, "density");
static_assert(offsetof(weir_allreduce_config, balance_trigger) == 32, "balance_trigger");
static_assert(offsetof(weir_allreduce_config, threshold_period) == 40, "threshold_period");
static_assert(offsetof(weir_allreduce_config, boundary_period) == 48, "boundary_period");
static_assert(offsetof(weir_allreduce_config, dense_iterations) == 56, "dense_iterations");
static_assert(offsetof(weir_allreduce_config, warmup_iterations) == 64, "warmup_iterations");
static_assert(offsetof(weir_allreduce_config, algorithm) == 72, "algorithm");
static_assert(offsetof(weir_allreduce_config, name) == 80, "name");
static_assert(offsetof(weir_allreduce_config, type) == 88, "type");
static_assert(offsetof(weir_allreduce_config, average) == 112, "average");
static_assert(offsetof(weir_allreduce_config, wire_format) == 116, "wire_format");
static_assert(offsetof(weir_allreduce_config, wire_values) == 120, "wire_values");
static_assert(offsetof(weir_allreduce_config, samplings) == 124, "samplings");
static_assert(offsetof(weir_allreduce_config, trial_iterations) == 128, "trial_iterations");
static_assert(offsetof(weir_allreduce_config, memory) == 136, "memory");
static_assert(offsetof(weir_allreduce_config, seed) == 140, "seed");
static_assert(offsetof(weir_allreduce_config, compressor) == 144, "compressor");
static_assert(offsetof(weir_allreduce_config, compressor_parameters) == 152, "compressor_parameters");
static_assert(offsetof(weir_allreduce_config, feedback_decay) == 160, "feedback_decay");
static_assert(offsetof(weir_allreduce_config, feedback_gain) == 168, "feedback_gain");
static_assert(WEIR_FEEDBACK_NONE == 0 && WEIR_FEEDBACK_RESIDUAL == 1 && WEIR_FEEDBACK_EF21 == 2 && WEIR_FEEDBACK_AUTOMATIC == 3,
              "feedback");
static_assert(WEIR_FLOAT16 == 2 && WEIR_BFLOAT16 == 3 && WEIR_MEMORY_CUDA == 1, "data types and memory spaces");
static_assert(sizeof(weir_sparse_result) == 32, "weir_sparse_result");
static_assert(offsetof(weir_sparse_result, values) == 24, "values");
static_assert(sizeof(weir_statistics) == 360, "weir_statistics");
static_assert(offsetof(weir_statistics, bytes_sent) == 72, "bytes_sent");
static_assert(offsetof(weir_statistics, seconds_select) == 296, "seconds_select");
static_assert(offsetof(weir_statistics, skipped) == 340, "skipped");
static_assert(offsetof(weir_statistics, seconds_in_node) == 344, "seconds_in_node");
static_assert(offsetof(weir_statistics, seconds_waited) == 352, "seconds_waited");
static_assert(WEIR_THRESHOLD_EXACT == 0 && WEIR_THRESHOLD_REUSE == 1 && WEIR_THRESHOLD_MSTOPK == 2, "threshold");
static_assert(WEIR_THRESHOLD_SAMPLED == 3 && WEIR_THRESHOLD_GAUSSIAN == 4 && WEIR_THRESHOLD_SIDCO == 5, "threshold");
static_assert(WEIR_NON_FINITE_ERROR == 0 && WEIR_NON_FINITE_SKIP == 1 && WEIR_NON_FINITE_PROPAGATE == 2, "non_finite");
static_assert(WEIR_WIRE_FORMAT_COMPACT == 0 && WEIR_WIRE_FORMAT_COO == 1, "wire_format");
static_assert(WEIR_WIRE_VALUES_NATIVE == 0 && WEIR_WIRE_VALUES_BFLOAT16 == 1 && WEIR_WIRE_VALUES_FLOAT16 == 2, "wire_values");
static_assert(sizeof(weir_algorithm_info) == 40 && offsetof(weir_algorithm_info, sparse) == 24, "weir_algorithm_info");
static_assert(offsetof(weir_algorithm_info, cuda_memory) == 32 && offsetof(weir_algorithm_info, packed) == 36,
              "weir_algorithm_info");
static_assert(sizeof(weir_compressor_info) == 56 && offsetof(weir_compressor_info, name) == 8, "weir_compressor_info");
static_assert(offsetof(weir_compressor_info, description) == 16 && offsetof(weir_compressor_info, source) == 24, "compressors");
static_assert(offsetof(weir_compressor_info, carriage) == 32 && offsetof(weir_compressor_info, parameters) == 40, "compressors");
static_assert(offsetof(weir_compressor_info, random) == 48 && offsetof(weir_compressor_info, feedback) == 52, "compressors");
static_assert(sizeof(weir_encoded_info) == 56 && offsetof(weir_encoded_info, version) == 8, "weir_encoded_info");
static_assert(offsetof(weir_encoded_info, count) == 16 && offsetof(weir_encoded_info, entries) == 24, "weir_encoded_info");
static_assert(offsetof(weir_encoded_info, bytes) == 32 && offsetof(weir_encoded_info, compressor) == 40, "weir_encoded_info");
static_assert(offsetof(weir_encoded_info, parameters) == 48, "weir_encoded_info");
static_assert(sizeof(weir_embedding_config) == 128, "weir_embedding_config");
static_assert(offsetof(weir_embedding_config, rows) == 8, "rows");
static_assert(offsetof(weir_embedding_config, width) == 16, "width");
static_assert(offsetof(weir_embedding_config, largest_batch) == 24, "largest_batch");
static_assert(offsetof(weir_embedding_config, seed) == 32, "seed");
static_assert(offsetof(weir_embedding_config, learning_rate) == 40, "learning_rate");
static_assert(offsetof(weir_embedding_config, beta1) == 48, "beta1");
static_assert(offsetof(weir_embedding_config, beta2) == 56, "beta2");
static_assert(offsetof(weir_embedding_config, epsilon) == 64, "epsilon");
static_assert(offsetof(weir_embedding_config, initial_range) == 72, "initial_range");
static_assert(offsetof(weir_embedding_config, exchange) == 80, "exchange");
static_assert(offsetof(weir_embedding_config, name) == 88, "name");
static_assert(offsetof(weir_embedding_config, optimizer) == 96, "optimizer");
static_assert(offsetof(weir_embedding_config, wire_values) == 100, "wire_values");
static_assert(offsetof(weir_embedding_config, routing) == 104, "routing");
static_assert(offsetof(weir_embedding_config, average) == 108, "average");
static_assert(offsetof(weir_embedding_config, priority) == 112, "priority");
static_assert(offsetof(weir_embedding_config, delayed_priority) == 116, "delayed_priority");
static_assert(offsetof(weir_embedding_config, memory) == 120, "memory");
static_assert(sizeof(weir_embedding_statistics) == 168, "weir_embedding_statistics");
static_assert(offsetof(weir_embedding_statistics, tokens) == 8, "tokens");
static_assert(offsetof(weir_embedding_statistics, distinct_rows) == 16, "distinct_rows");
static_assert(offsetof(weir_embedding_statistics, prior_rows) == 24, "prior_rows");
static_assert(offsetof(weir_embedding_statistics, updated_rows) == 32, "updated_rows");
static_assert(offsetof(weir_embedding_statistics, id_bytes_sent) == 40, "id_bytes_sent");
static_assert(offsetof(weir_embedding_statistics, lookup_bytes_sent) == 48, "lookup_bytes_sent");
static_assert(offsetof(weir_embedding_statistics, gradient_bytes_sent) == 56, "gradient_bytes_sent");
static_assert(offsetof(weir_embedding_statistics, control_bytes_sent) == 64, "control_bytes_sent");
static_assert(offsetof(weir_embedding_statistics, bytes_sent) == 72, "bytes_sent");
static_assert(offsetof(weir_embedding_statistics, seconds_lookup) == 128, "seconds_lookup");
static_assert(offsetof(weir_embedding_statistics, seconds_coalesce) == 136, "seconds_coalesce");
static_assert(offsetof(weir_embedding_statistics, seconds_prior) == 144, "seconds_prior");
static_assert(offsetof(weir_embedding_statistics, seconds_update) == 152, "seconds_update");
static_assert(offsetof(weir_embedding_statistics, prefetched) == 160, "prefetched");
static_assert(offsetof(weir_embedding_statistics, by_node) == 164, "by_node");
static_assert(WEIR_OPTIMIZER_SGD == 0 && WEIR_OPTIMIZER_MOMENTUM == 1 && WEIR_OPTIMIZER_ADAGRAD == 2 && WEIR_OPTIMIZER_ADAM == 3,
              "optimizer");
static_assert(WEIR_ROUTING_AUTOMATIC == 0 && WEIR_ROUTING_DIRECT == 1 && WEIR_ROUTING_BY_NODE == 2, "routing");
static_assert(sizeof(weir_checkpoint_config) == 48, "weir_checkpoint_config");
static_assert(offsetof(weir_checkpoint_config, keep) == 8, "keep");
static_assert(offsetof(weir_checkpoint_config, compression) == 16, "compression");
static_assert(offsetof(weir_checkpoint_config, folder) == 24, "folder");
static_assert(offsetof(weir_checkpoint_config, run) == 32, "run");
static_assert(offsetof(weir_checkpoint_config, name) == 40, "name");
static_assert(sizeof(weir_checkpoint_statistics) == 72, "weir_checkpoint_statistics");
static_assert(offsetof(weir_checkpoint_statistics, step) == 8, "step");
static_assert(offsetof(weir_checkpoint_statistics, ranks) == 16, "ranks");
static_assert(offsetof(weir_checkpoint_statistics, snapshot_bytes) == 24, "snapshot_bytes");
static_assert(offsetof(weir_checkpoint_statistics, bytes_written) == 32, "bytes_written");
static_assert(offsetof(weir_checkpoint_statistics, bytes_read) == 40, "bytes_read");
static_assert(offsetof(weir_checkpoint_statistics, seconds_snapshot) == 48, "seconds_snapshot");
static_assert(offsetof(weir_checkpoint_statistics, seconds_save) == 56, "seconds_save");
static_assert(offsetof(weir_checkpoint_statistics, seconds_restore) == 64, "seconds_restore");
static_assert(WEIR_ELEMENT_FLOAT32 == 0 && WEIR_ELEMENT_FLOAT64 == 1 && WEIR_ELEMENT_INT32 == 2, "element types");
static_assert(WEIR_ELEMENT_INT64 == 3 && WEIR_ELEMENT_UINT8 == 4, "element types");
static_assert(WEIR_DISTRIBUTION_REPLICATED == 0 && WEIR_DISTRIBUTION_BLOCK == 1 && WEIR_DISTRIBUTION_LOCAL == 2, "distribution");
static_assert(WEIR_OK == 0 && WEIR_ERR_ARGUMENT == 1 && WEIR_ERR_MISMATCH == 2 && WEIR_ERR_BUSY == 3 && WEIR_ERR_STATE == 4,
              "status");
static_assert(WEIR_ERR_NON_FINITE == 5 && WEIR_ERR_TIMEOUT == 6 && WEIR_ERR_TRANSPORT == 7 && WEIR_ERR_MEMORY == 8, "status");
static_assert(WEIR_ERR_SETTING == 9 && WEIR_ERR_UNSUPPORTED == 10 && WEIR_ERR_INTERNAL == 11 && WEIR_ERR_DEVICE == 12, "status");
static_assert(WEIR_ERR_FILE == 13, "status");

int main(void) { return 0; }
