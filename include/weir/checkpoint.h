/* weir/checkpoint.h: the C interface of checkpoints: files from which a run goes on. C11. Errors, struct_size, collective calls and
 * thread-safety are as in weir/weir.h. weir/checkpoint.hpp says what happens in which call.
 *
 *   weir_checkpoint_create(comm, &config, &checkpoint);
 *   weir_checkpoint_add_plan(checkpoint, "gradient", plan);
 *   weir_checkpoint_add_array(checkpoint, "weights", weights, WEIR_ELEMENT_FLOAT32, WEIR_DISTRIBUTION_REPLICATED, count, 0, count);
 *   weir_checkpoint_restore(checkpoint, -1, &step);       the newest file; step becomes -1 if there is no file
 *   weir_checkpoint_save(checkpoint, step);               returns at once */
#ifndef WEIR_CHECKPOINT_H
#define WEIR_CHECKPOINT_H

#include <weir/embedding.h>
#include <weir/fusion.h>
#include <weir/optim.h>
#include <weir/sparse_adam.h>
#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_checkpoint weir_checkpoint; /**< checkpoints of one run, in one folder */

/** Collective. Looks at the folder, and makes it if only its last part is missing. The caller owns `*checkpoint`, and destroys
 *  it with weir_checkpoint_destroy. On error *checkpoint is NULL. */
weir_status weir_checkpoint_create(weir_comm* comm, const weir_checkpoint_config* config, weir_checkpoint** checkpoint);
/** Not collective. Finishes a save in flight, since the other ranks wait for it. NULL is fine. */
weir_status weir_checkpoint_destroy(weir_checkpoint* checkpoint);

/** Adds an object that is to be saved and restored; all ranks add the same. Names have letters, digits, '_', '-' and '.', and
 *  are all different. A plan or table may be destroyed before the checkpoint, which then saves and restores no more. */
weir_status weir_checkpoint_add_plan(weir_checkpoint* checkpoint, const char* name, weir_plan* plan);
weir_status weir_checkpoint_add_embedding(weir_checkpoint* checkpoint, const char* name, weir_embedding* table);
/** Adds fused tensors, between two of their iterations. They may be destroyed before the checkpoint, too. */
weir_status weir_checkpoint_add_fused(weir_checkpoint* checkpoint, const char* name, weir_fused* fused);
/** Adds an optimizer. It is saved as one whole, whether its update is divided or not. It may be destroyed before the checkpoint,
 *  too. */
weir_status weir_checkpoint_add_optimizer(weir_checkpoint* checkpoint, const char* name, weir_layer_optimizer* optimizer);
/** Adds a SparseAdam, between two of its steps. All ranks have the same, so it is saved once. It may be destroyed before the
 *  checkpoint, too. */
weir_status weir_checkpoint_add_sparse_adam(weir_checkpoint* checkpoint, const char* name, weir_sparse_adam* adam);
/** Adds a schedule: the restore checks that a restored run has the same blocks. The schedule may be destroyed before the
 *  checkpoint. */
weir_status weir_checkpoint_add_schedule(weir_checkpoint* checkpoint, const char* name, weir_schedule* schedule);
/** Adds a caller's array: `count` elements of `type` (weir_element_type) at `data`, in host memory, which must outlive the
 *  checkpoint's last save and restore. `distribution` (weir_distribution) says how it lies on the ranks. With
 *  WEIR_DISTRIBUTION_BLOCK, these are the elements from `first` on of a whole of `total`; otherwise `first` and `total` are
 *  ignored. */
weir_status weir_checkpoint_add_array(weir_checkpoint* checkpoint, const char* name, void* data, int32_t type, int32_t distribution,
                                      int64_t count, int64_t first, int64_t total);

/** Sets a value that is saved with everything. The file gets rank 0's value. */
weir_status weir_checkpoint_set_integer(weir_checkpoint* checkpoint, const char* name, int64_t value);
weir_status weir_checkpoint_set_real(weir_checkpoint* checkpoint, const char* name, double value);
weir_status weir_checkpoint_set_text(weir_checkpoint* checkpoint, const char* name, const char* value);
/** Gives a value as set or restored last. Returns WEIR_ERR_ARGUMENT if no value has that name and type. A text is valid until
 *  the next call on this checkpoint. */
weir_status weir_checkpoint_get_integer(const weir_checkpoint* checkpoint, const char* name, int64_t* value);
weir_status weir_checkpoint_get_real(const weir_checkpoint* checkpoint, const char* name, double* value);
weir_status weir_checkpoint_get_text(const weir_checkpoint* checkpoint, const char* name, const char** value);

/** Collective, nonblocking. Takes a snapshot and returns. The file is written while the program goes on and calls Weir now and
 *  then. Waits for the previous save. Returns WEIR_ERR_FILE if a file cannot be written; earlier ones stay whole. */
weir_status weir_checkpoint_save(weir_checkpoint* checkpoint, int64_t step);
/** *done becomes 1 when the file is in its place. The test or wait of a save, or the next save, returns its error, once. */
weir_status weir_checkpoint_test(weir_checkpoint* checkpoint, int* done);
/** Waits until the file is in its place. */
weir_status weir_checkpoint_wait(weir_checkpoint* checkpoint);
/** Waits as weir_plan_wait_for does. */
weir_status weir_checkpoint_wait_for(weir_checkpoint* checkpoint, double seconds, int* done);

/** Collective, blocking. Restores from the file of `step`. With -1, restores from the newest file that is whole or, with
 *  `strict`, from the newest. *restored, unless NULL, becomes its step, or -1 if the folder has no file. Returns WEIR_ERR_FILE
 *  if the file is damaged, and WEIR_ERR_MISMATCH if it does not fit; everything is then as it was. */
weir_status weir_checkpoint_restore(weir_checkpoint* checkpoint, int64_t step, int64_t* restored);
/** Not collective. Gives the steps of the files in the folder, in ascending order. *count becomes their number. steps[] gets
 *  them if its length, `size`, suffices; else the call returns WEIR_ERR_ARGUMENT. With steps NULL, gives only *count. */
weir_status weir_checkpoint_steps(const weir_checkpoint* checkpoint, int64_t* steps, int size, int* count);

/** Catches a signal from now on. The signal no longer ends the process; instead, weir_checkpoint_stop_requested says that it has
 *  come. */
weir_status weir_checkpoint_catch_signal(int signal);
/** Collective, blocking. *stop becomes 1 if any rank has received a signal that weir_checkpoint_catch_signal has named. */
weir_status weir_checkpoint_stop_requested(weir_checkpoint* checkpoint, int* stop);

/** Gives what the last save and the last restore did on this rank. */
weir_status weir_checkpoint_get_statistics(const weir_checkpoint* checkpoint, weir_checkpoint_statistics* statistics);
/** Gives the configuration in force. Texts are valid as long as the checkpoint. */
weir_status weir_checkpoint_get_config(const weir_checkpoint* checkpoint, weir_checkpoint_config* config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
