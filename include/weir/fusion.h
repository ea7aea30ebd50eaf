/* weir/fusion.h: the C interface of tensor fusion, which reduces the gradients of a whole model while back-propagation brings them
 * in. C11. Errors, struct_size, collective calls and thread-safety are as in weir/weir.h. weir/fusion.hpp says what happens in
 * which call.
 *
 *   weir_fused_tensor tensors[2] = {WEIR_FUSED_TENSOR_INIT, WEIR_FUSED_TENSOR_INIT};    in the order of the forward pass
 *   tensors[0].name = "layer1.weight"; tensors[0].count = 4096; ...
 *   weir_fused_create(comm, &config, tensors, 2, &fused);
 *   weir_fused_ready(fused, 1, gradient1, 512);           in the backward pass, in whatever order gradients come
 *   weir_fused_ready(fused, 0, gradient0, 4096);
 *   weir_fused_wait_all(fused);                           the gradients are the averaged sparse updates */
#ifndef WEIR_FUSION_H
#define WEIR_FUSION_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_fused weir_fused; /**< the gradients of one model */

/** Collective. Makes an object from `count` tensors, all of the struct_size of the first, in the order of the forward pass. The
 *  caller owns `*fused`, and destroys it with weir_fused_destroy. On error *fused is NULL. */
weir_status weir_fused_create(weir_comm* comm, const weir_fusion_config* config, const weir_fused_tensor* tensors, int count,
                              weir_fused** fused);
/** Not collective. Finishes exchanges in flight, since the other ranks wait for them. NULL is fine. */
weir_status weir_fused_destroy(weir_fused* fused);

/** Hands in the gradient of tensor `tensor`, which is complete: `count` elements of the configuration's type. The gradient
 *  belongs to the library until weir_fused_wait for the tensor, or weir_fused_wait_all, has returned, and then holds the update.
 *  If something is wrong with the call, all ranks get the error in their waits. */
weir_status weir_fused_ready(weir_fused* fused, int tensor, void* gradient, int64_t count);
/** Says that this rank has no gradient for an optional tensor in this iteration; it contributes nothing. `gradient`, `count`
 *  elements, gets the update that the other ranks make. */
weir_status weir_fused_skip(weir_fused* fused, int tensor, void* gradient, int64_t count);
/** Makes progress on everything in flight. Meant for callers that compute for long between two gradients. */
weir_status weir_fused_progress(weir_fused* fused);
/** Makes progress. *done becomes 1 once the update of this tensor is in its gradient. */
weir_status weir_fused_test(weir_fused* fused, int tensor, int* done);
/** Waits until the update of this tensor is in its gradient. */
weir_status weir_fused_wait(weir_fused* fused, int tensor);
/** Waits for at most `seconds`; *done as in weir_fused_test. */
weir_status weir_fused_wait_for(weir_fused* fused, int tensor, double seconds, int* done);
/** Waits until all updates are there, and all ranks have ended the iteration. Every rank calls it before its next
 *  weir_fused_ready. */
weir_status weir_fused_wait_all(weir_fused* fused);

/** *tensor becomes the place of a name in the order of the forward pass. */
weir_status weir_fused_find_tensor(const weir_fused* fused, const char* name, int* tensor);
/** *buffer becomes the number of the buffer that the tensor travels in; -1 for the sparse tensors of WEIR_FUSION_AHEAD. */
weir_status weir_fused_buffer_of(const weir_fused* fused, int tensor, int* buffer);
/** Gives what error feedback keeps of a tensor on this rank, valid until the next weir_fused_ready, weir_fused_reset,
 *  weir_fused_restore_state or weir_fused_destroy. Returns WEIR_ERR_BUSY within an iteration, as do the functions of the state. */
weir_status weir_fused_residual(const weir_fused* fused, int tensor, weir_residual* residual);
/** Gives the statistics of the last iteration that has ended. */
weir_status weir_fused_get_statistics(const weir_fused* fused, weir_fusion_statistics* statistics);
/** Gives the configuration in force. Texts are valid as long as the object. */
weir_status weir_fused_get_config(const weir_fused* fused, weir_fusion_config* config);
/** Returns, as text, which buffers there are and why. Valid until the next call for this object; NULL for a NULL object. */
const char* weir_fused_explanation(const weir_fused* fused);
/** Gives the number of bytes that this object holds on this rank, besides the caller's gradients. */
weir_status weir_fused_memory_bytes(const weir_fused* fused, int64_t* bytes);
/** Same as weir_plan_state_bytes, weir_plan_save_state and weir_plan_restore_state. */
weir_status weir_fused_state_bytes(weir_fused* fused, int64_t* bytes);
weir_status weir_fused_save_state(weir_fused* fused, void* state, int64_t bytes);
weir_status weir_fused_restore_state(weir_fused* fused, const void* state, int64_t bytes);
/** Forgets residuals, thresholds and iteration count. Every rank must call it before the same iteration. */
weir_status weir_fused_reset(weir_fused* fused);
/** Does the same as weir_plan_scale_residual, for all tensors. Returns WEIR_ERR_BUSY within an iteration. */
weir_status weir_fused_scale_residuals(weir_fused* fused, double factor);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
