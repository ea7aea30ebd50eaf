/* weir/sparse_adam.h: the C interface of Adam for sparse updates. C11. Errors and struct_size are as in weir/weir.h.
 * weir/sparse_adam.hpp says what happens in which call.
 *
 *   weir_sparse_adam_create(&config, &adam);
 *   weir_plan_run_sparse(plan, gradient, &update);
 *   weir_sparse_adam_step(adam, update.indices, update.values, update.count, weights, n, 1e-3);
 *
 * A SparseAdam belongs to no communicator, and no call is collective: weir_last_error(NULL) has the texts of errors. Only one
 * thread at a time may use an object; different objects have nothing in common. */
#ifndef WEIR_SPARSE_ADAM_H
#define WEIR_SPARSE_ADAM_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_sparse_adam weir_sparse_adam; /**< moments of an array of weights */

/** Makes a SparseAdam, which the caller owns and destroys with weir_sparse_adam_destroy. On error *adam is NULL. */
weir_status weir_sparse_adam_create(const weir_sparse_adam_config* config, weir_sparse_adam** adam);
/** NULL is fine. */
weir_status weir_sparse_adam_destroy(weir_sparse_adam* adam);

/** Makes one step. The update has `entries` entries: indices ascend from 0, none twice, and values are float32. `weights` has
 *  `count` elements, as many as the configuration says. Everything is in host memory. Returns WEIR_ERR_ARGUMENT if this is not
 *  so; nothing has changed then. */
weir_status weir_sparse_adam_step(weir_sparse_adam* adam, const uint32_t* indices, const float* values, int64_t entries,
                                  float* weights, int64_t count, double learning_rate);
/** Takes one part of an update that comes in several. No index is in two parts. weir_sparse_adam_step with the last part ends
 *  the step. */
weir_status weir_sparse_adam_step_part(weir_sparse_adam* adam, const uint32_t* indices, const float* values, int64_t entries,
                                       float* weights, int64_t count, double learning_rate);
/** *number becomes the number of steps that have ended. */
weir_status weir_sparse_adam_steps(const weir_sparse_adam* adam, int64_t* number);
/** Gives the configuration in force. Texts are valid as long as the object. */
weir_status weir_sparse_adam_get_config(const weir_sparse_adam* adam, weir_sparse_adam_config* config);
/** Gives the number of bytes that this object holds, besides the caller's arrays. */
weir_status weir_sparse_adam_memory_bytes(const weir_sparse_adam* adam, int64_t* bytes);
/** Same as weir_plan_state_bytes, weir_plan_save_state and weir_plan_restore_state. Return WEIR_ERR_BUSY between the parts of a
 *  step. The state is the same on all ranks. */
weir_status weir_sparse_adam_state_bytes(weir_sparse_adam* adam, int64_t* bytes);
weir_status weir_sparse_adam_save_state(weir_sparse_adam* adam, void* state, int64_t bytes);
weir_status weir_sparse_adam_restore_state(weir_sparse_adam* adam, const void* state, int64_t bytes);
/** Forgets moments, the number of steps, and the parts of a step that has not ended. */
weir_status weir_sparse_adam_reset(weir_sparse_adam* adam);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
