/* weir/optim.h: the C interface of the parallel operator, which divides work among ranks that every rank would otherwise do whole,
 * and of LARS and LAMB on it. C11. Errors, struct_size, collective calls and thread-safety are as in weir/weir.h. weir/optim.hpp
 * says what happens in which call.
 *
 *   weir_optimized_layer layers[2] = {WEIR_OPTIMIZED_LAYER_INIT, WEIR_OPTIMIZED_LAYER_INIT};
 *   layers[0].name = "fc.weight"; layers[0].count = 4096;
 *   layers[1].name = "fc.bias"; layers[1].count = 16; layers[1].excluded = 1;
 *   weir_optimizer_create(comm, &config, layers, 2, &optimizer);
 *   weir_optimizer_step(optimizer, weights, gradients, 2, 0.1);           arrays of pointers, one for each layer */
#ifndef WEIR_OPTIM_H
#define WEIR_OPTIM_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_operator weir_operator;               /**< work in parts, divided among ranks */
typedef struct weir_layer_optimizer weir_layer_optimizer; /**< LARS or LAMB over the layers of one model */

/** Works on one part, on this rank: writes its result, which is `bytes` long, to `result`. Returns the number of bytes of the
 *  result, which may be fewer only with weir_operator_config's `variable`. The same part must give the same bytes on every rank.
 *  `context` is that of the call.
 *
 *  A body that fails returns a weir_status, negated: the run ends with it on every rank. *error, which is NULL before, may
 *  become a text that says why; the text must stay as it is until this function is called again or the call that it is called
 *  from has returned. The body must not throw, jump out, or call functions of the same communicator: these are WEIR_ERR_BUSY. */
typedef int64_t (*weir_operator_body)(void* context, int part, void* result, int64_t bytes, const char** error);

/** Collective. Makes an operator from `count` parts, all of the struct_size of the first. The caller owns `*work`, and destroys
 *  it with weir_operator_destroy. On error *work is NULL. */
weir_status weir_operator_create(weir_comm* comm, const weir_operator_config* config, const weir_operator_part* parts, int count,
                                 weir_operator** work);
/** Not collective. Finishes a run in flight, since the other ranks wait for it. NULL is fine. */
weir_status weir_operator_destroy(weir_operator* work);

/** Collective, blocking. Calls `body` for the parts of this rank, in order, and gathers the results of all parts in `results`,
 *  which are `bytes` long, as weir_operator_bytes says. */
weir_status weir_operator_run(weir_operator* work, weir_operator_body body, void* context, void* results, int64_t bytes);
/** Collective, nonblocking. Calls `body` here, and never afterwards; gathers results in test and wait. `results` belong to the
 *  library until one of these says that the run has ended. They return an error of the body. */
weir_status weir_operator_start(weir_operator* work, weir_operator_body body, void* context, void* results, int64_t bytes);
/** Collective: takes the place of weir_operator_start or weir_operator_run on a rank that has no valid arguments for them.
 *  Bindings of other languages call it if their checks fail. The run ends with WEIR_ERR_ARGUMENT on all ranks; its text names
 *  the rank and says `why`. */
weir_status weir_operator_refuse(weir_operator* work, const char* why);
/** Makes progress. *done becomes 1 once the run has ended, or if nothing was started. */
weir_status weir_operator_test(weir_operator* work, int* done);
/** Waits until the run has ended. */
weir_status weir_operator_wait(weir_operator* work);
/** Waits for at most `seconds`; *done as in weir_operator_test. */
weir_status weir_operator_wait_for(weir_operator* work, double seconds, int* done);

/** *bytes becomes the number of bytes of all results, which lie one after the other in the order of parts. */
weir_status weir_operator_bytes(const weir_operator* work, int64_t* bytes);
/** *offset becomes the place where a part's result begins. */
weir_status weir_operator_offset(const weir_operator* work, int part, int64_t* offset);
/** *bytes becomes the number of bytes of a part's result in the last run. */
weir_status weir_operator_result_bytes(const weir_operator* work, int part, int64_t* bytes);
/** *works becomes 1 if this rank works on the part. */
weir_status weir_operator_works_on(const weir_operator* work, int part, int* works);
/** Gives the statistics of the last run. */
weir_status weir_operator_get_statistics(const weir_operator* work, weir_operator_statistics* statistics);
/** Gives the configuration in force; `division` is what automatic choice stands for. Texts are valid as long as the operator. */
weir_status weir_operator_get_config(const weir_operator* work, weir_operator_config* config);
/** Returns, as text, why work is divided as it is. Valid until the next call for this operator; NULL for a NULL operator. */
const char* weir_operator_explanation(const weir_operator* work);
/** Gives the number of bytes that this operator holds on this rank, besides the caller's results. */
weir_status weir_operator_memory_bytes(const weir_operator* work, int64_t* bytes);

/** Collective. Makes an optimizer of `count` layers, all of the struct_size of the first. The caller owns `*optimizer`, and
 *  destroys it with weir_optimizer_destroy. On error *optimizer is NULL. */
weir_status weir_optimizer_create(weir_comm* comm, const weir_optimizer_config* config, const weir_optimized_layer* layers,
                                  int count, weir_layer_optimizer** optimizer);
/** Not collective. NULL is fine. */
weir_status weir_optimizer_destroy(weir_layer_optimizer* optimizer);

/** Collective, blocking. weights[i] and gradients[i] are those of layer i, of the configuration's type; `count` is the number of
 *  layers. After the step, the weights are the same on every rank, bit for bit. Returns WEIR_ERR_NON_FINITE on all ranks, naming
 *  the layer, if a norm is not finite. With WEIR_OPTIMIZER_LARS nothing has changed then; with WEIR_OPTIMIZER_LAMB the moments
 *  have taken the gradient up. */
weir_status weir_optimizer_step(weir_layer_optimizer* optimizer, void* const* weights, const void* const* gradients, int count,
                                double learning_rate);
/** Does the same in CUDA memory, with arrays on the optimizer's GPU. `stream` is a cudaStream_t: the step comes after the work
 *  that is on it, and work put onto it after the call sees the weights. NULL is the default stream. In host memory `stream` must
 *  be NULL. */
weir_status weir_optimizer_step_on_stream(weir_layer_optimizer* optimizer, void* const* weights, const void* const* gradients,
                                          int count, double learning_rate, void* stream);
/** Collective: takes the place of a step, like weir_operator_refuse. Returns the error on all ranks. Weights have not changed.
 *  With WEIR_OPTIMIZER_LAMB the other ranks' moments have taken the gradient up, as always when a step is refused for one rank's
 *  arguments: call weir_optimizer_reset or weir_optimizer_restore_state before the next one. */
weir_status weir_optimizer_refuse(weir_layer_optimizer* optimizer, const char* why);
/** Copies the rates that layers had in the last step, besides the learning rate. `count` is the number of layers. */
weir_status weir_optimizer_rates(const weir_layer_optimizer* optimizer, double* rates, int count);
/** Gives the statistics of the last step. */
weir_status weir_optimizer_get_statistics(const weir_layer_optimizer* optimizer, weir_optimizer_statistics* statistics);
/** Gives the configuration in force; `norms` and `update` are what automatic choice stands for. Texts are valid as long as the
 *  optimizer. */
weir_status weir_optimizer_get_config(const weir_layer_optimizer* optimizer, weir_optimizer_config* config);
/** Returns, as text, why work is divided as it is. Valid until the next call for this optimizer; NULL for a NULL optimizer. */
const char* weir_optimizer_explanation(const weir_layer_optimizer* optimizer);
/** Gives the number of bytes that this optimizer holds on this rank, besides the caller's arrays. */
weir_status weir_optimizer_memory_bytes(const weir_layer_optimizer* optimizer, int64_t* bytes);
/** Same as weir_plan_state_bytes, weir_plan_save_state and weir_plan_restore_state. */
weir_status weir_optimizer_state_bytes(weir_layer_optimizer* optimizer, int64_t* bytes);
weir_status weir_optimizer_save_state(weir_layer_optimizer* optimizer, void* state, int64_t bytes);
weir_status weir_optimizer_restore_state(weir_layer_optimizer* optimizer, const void* state, int64_t bytes);
/** Forgets momentum or moments, and the number of steps. Every rank must call it before the same step. */
weir_status weir_optimizer_reset(weir_layer_optimizer* optimizer);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
