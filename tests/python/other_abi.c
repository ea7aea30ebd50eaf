/* A library that pretends to be another version of weir, and the sizes of the structs in C. */
#include <string.h>
#include <weir/datacache.h>

void weir_version(int* major, int* minor, int* patch);
size_t size_of(const char* name);

void weir_version(int* major, int* minor, int* patch) {
  *major = 9;
  *minor = 8;
  *patch = 7;
}

#define STRUCTS(X)                                                                                              \
  X(weir_allreduce_config)                                                                                      \
  X(weir_statistics)                                                                                            \
  X(weir_algorithm_info)                                                                                        \
  X(weir_setting_info)                                                                                          \
  X(weir_embedding_config)                                                                                      \
  X(weir_compressor_info)                                                                                       \
  X(weir_encoded_info)                                                                                          \
  X(weir_embedding_statistics)                                                                                  \
  X(weir_exchange_info)                                                                                         \
  X(weir_checkpoint_config)                                                                                     \
  X(weir_checkpoint_statistics)                                                                                 \
  X(weir_sparse_result) X(weir_residual) X(weir_fused_tensor) X(weir_fusion_config) X(weir_fusion_statistics)   \
      X(weir_operator_config) X(weir_operator_statistics) X(weir_optimizer_config) X(weir_optimizer_statistics) \
          X(weir_operator_part) X(weir_optimized_layer) X(weir_sparse_adam_config) X(weir_sparse_sum_config)    \
              X(weir_sparse_sum_statistics) X(weir_sample_cache_config) X(weir_sample_cache_statistics)         \
                  X(weir_sample_loader_config) X(weir_sample_batch) X(weir_source_functions)

/* Returns 0 for a struct that is not in the list. */
size_t size_of(const char* name) {
#define SIZE(struct_) \
  if (strcmp(name, #struct_) == 0) return sizeof(struct_);
  STRUCTS(SIZE)
  return 0;
}
