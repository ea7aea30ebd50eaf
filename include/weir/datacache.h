/* weir/datacache.h: the C interface of the sample cache. It reads and decodes training samples once, and keeps them in the memory
 * of the nodes. C11. Errors, struct_size, collective calls and thread-safety are as in weir/weir.h. weir/datacache.hpp says what
 * happens in which call.
 *
 *   weir_source_create_idx("train-images-idx3-ubyte", "train-labels-idx1-ubyte", &source);
 *   weir_cache_create(comm, &config, source, &cache);
 *   status = weir_loader_create(cache, &loader_config, &loader);
 *   for (epoch = 0; epoch < epochs && status == WEIR_OK; ++epoch)
 *     while ((status = weir_loader_next(loader, &batch, &there)) == WEIR_OK && there) train(&batch);
 *   if (status != WEIR_OK) fprintf(stderr, "%s\n", weir_last_error(comm)); */
#ifndef WEIR_DATACACHE_H
#define WEIR_DATACACHE_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_source weir_source; /**< a data set on a slow store */
typedef struct weir_cache weir_cache;   /**< the samples of a source, kept by the ranks of the nodes */
typedef struct weir_loader weir_loader; /**< epochs over the samples of a cache */

/* Sources. Each rank makes its own, of the same data as the others; making one is not collective. They belong to no communicator:
 * weir_last_error(NULL) has the texts of their errors, and any thread may use them at any time. */

/** Make sources as record_source, idx_source, npy_source, hdf5_source and jpeg_source of weir/datacache.hpp do. `labels` may be
 *  NULL: no labels. The caller owns *source, and destroys it with weir_source_destroy. On error *source is NULL. */
weir_status weir_source_create_records(const char* path, int64_t record_bytes, int64_t header_bytes, weir_source** source);
weir_status weir_source_create_idx(const char* path, const char* labels, weir_source** source);
weir_status weir_source_create_npy(const char* path, const char* labels, weir_source** source);
weir_status weir_source_create_hdf5(const char* path, const char* dataset, const char* labels, weir_source** source);
weir_status weir_source_create_jpeg(const char* folder, int height, int width, weir_source** source);

/** One call of a function of weir_source_functions; valid during the call. */
typedef struct weir_source_call weir_source_call;

/** A format of the caller's own. Start from WEIR_SOURCE_FUNCTIONS_INIT. Threads of the library call `read` and `decode`, each
 *  from as many threads at once as weir_sample_cache_config::threads says, so both must be thread-safe. They must not call Weir,
 *  except weir_source_append and weir_source_fail, and must not throw. They return WEIR_OK. If something is wrong they call
 *  weir_source_fail, and return a status such as WEIR_ERR_FILE. */
typedef struct weir_source_functions {
  size_t struct_size;
  int64_t size;         /**< number of samples of the data set */
  int64_t value_bytes;  /**< bytes of a decoded sample, at most */
  const char* identity; /**< line that changes when the data change; see SampleSource::identity. Copied */
  int32_t variable;     /**< 1: decoded samples may be shorter than value_bytes */
  int32_t reserved;
  /** Reads samples [first, first + count) from the store, as they are there. Appends their bytes, one sample after the other, by
   *  weir_source_append, and writes the number of bytes of each to sizes, which is `count` long. */
  weir_status (*read)(void* user, int64_t first, int64_t count, int64_t* sizes, weir_source_call* call);
  /** Decodes a sample of `encoded_bytes` bytes into `value`. *value_bytes is the number of bytes that `value` has room for, and
   *  becomes the number of bytes of the decoded sample. NULL: samples are copied. */
  weir_status (*decode)(void* user, int64_t sample, const void* encoded, int64_t encoded_bytes, void* value, int64_t* value_bytes,
                        weir_source_call* call);
  /** Called once: by weir_source_close, or when nothing uses the source any more, in the thread that destroys the last user.
   *  NULL: nothing is called. */
  void (*release)(void* user);
} weir_source_functions;
#define WEIR_SOURCE_FUNCTIONS_INIT \
  { sizeof(weir_source_functions), 0, 0, "", 0, 0, NULL, NULL, NULL }

/** Makes a source whose samples `functions` read and decode; each gets `user`. On error nothing is released. */
weir_status weir_source_create(const weir_source_functions* functions, void* user, weir_source** source);
/** For use within `read`. *room becomes the address of `bytes` more bytes, behind those appended before, whose addresses change. */
weir_status weir_source_append(weir_source_call* call, int64_t bytes, void** room);
/** For use within `read` and `decode`. Says, as text, what is wrong; the error of the batch repeats it. */
weir_status weir_source_fail(weir_source_call* call, const char* text);

/** Destroys the caller's handle. A cache that was made of the source goes on using it. NULL is fine. */
weir_status weir_source_destroy(weir_source* source);
/** Closes a source of the caller's functions: waits until none of them is under way, releases the source, and from then on calls
 *  none. Samples that would have to be read or decoded end in WEIR_ERR_STATE. Meant for programs that lose these functions, such
 *  as an interpreter that ends. */
weir_status weir_source_close(weir_source* source);
/** Gives the number of samples of the data set. */
weir_status weir_source_size(const weir_source* source, int64_t* samples);
/** Gives the bytes of a decoded sample, at most. */
weir_status weir_source_value_bytes(const weir_source* source, int64_t* bytes);
/** Returns SampleSource::identity of the source. Valid until this thread's next call; NULL for an invalid source. */
const char* weir_source_identity(const weir_source* source);
/** Returns how the numbers of a value are laid out, as SampleSource::layout. Valid until this thread's next call; NULL for an
 *  invalid source. */
const char* weir_source_layout(const weir_source* source);
/** Reads and decodes one sample here and now, without a cache. `value` has room for weir_source_value_bytes. *bytes becomes the
 *  number of bytes of the sample. */
weir_status weir_source_get(weir_source* source, int64_t sample, void* value, int64_t* bytes);

/** Collective. Makes a cache, which the caller owns and destroys with weir_cache_destroy. On error *cache is NULL. */
weir_status weir_cache_create(weir_comm* comm, const weir_sample_cache_config* config, weir_source* source, weir_cache** cache);
/** Not collective. Finishes what is in flight. Loaders that were made of the cache go on. NULL is fine. */
weir_status weir_cache_destroy(weir_cache* cache);

/** Collective, blocking. Each rank asks for `count` samples of its own, possibly none. Value i goes to the bytes from i x
 *  weir_cache_value_bytes on of `values`, and its number of bytes to sizes[i]. A skipped sample has size -1 and a value of
 *  zeros. `sizes` may be NULL. */
weir_status weir_cache_get(weir_cache* cache, const int64_t* samples, int64_t count, void* values, int64_t* sizes);
/** Collective, nonblocking. `samples` must last only until the call returns; `values` and `sizes` until the batch has finished.
 *  *batch becomes the number of the batch, from 0. As many as weir_sample_cache_config::in_flight batches may be in flight. One
 *  more start waits for the first of them, and returns its error if it has ended with one. */
weir_status weir_cache_start(weir_cache* cache, const int64_t* samples, int64_t count, void* values, int64_t* sizes,
                             int64_t* batch);
/** Collective: takes the place of weir_cache_start or weir_cache_get on a rank that has no valid arguments for them. Bindings of
 *  other languages call it if their checks fail. The batch ends with WEIR_ERR_ARGUMENT on all ranks; its text names the rank and
 *  says `why`. *batch is as in weir_cache_start. */
weir_status weir_cache_refuse(weir_cache* cache, const char* why, int64_t* batch);
/** Makes progress on everything in flight. *done becomes 1 once the batch has finished. Its error is returned once. A batch that
 *  was waited for before is finished. */
weir_status weir_cache_test(weir_cache* cache, int64_t batch, int* done);
/** Waits until the batch has finished. */
weir_status weir_cache_wait(weir_cache* cache, int64_t batch);
/** Waits as weir_plan_wait_for does. */
weir_status weir_cache_wait_for(weir_cache* cache, int64_t batch, double seconds, int* done);

/** Gives the number of samples of the data set. */
weir_status weir_cache_size(const weir_cache* cache, int64_t* samples);
/** Gives the bytes of a decoded sample, at most. */
weir_status weir_cache_value_bytes(const weir_cache* cache, int64_t* bytes);
/** *rank becomes the rank that owns the sample. */
weir_status weir_cache_owner(const weir_cache* cache, int64_t sample, int* rank);
/** Gives what the cache has done on this rank so far. */
weir_status weir_cache_get_statistics(const weir_cache* cache, weir_sample_cache_statistics* statistics);
/** Gives the configuration in force. Texts are valid as long as the cache. */
weir_status weir_cache_get_config(const weir_cache* cache, weir_sample_cache_config* config);
/** Returns, as text, how much of the data set fits into which level. Valid until the next call for this cache; NULL for a NULL
 *  cache. */
const char* weir_cache_explanation(const weir_cache* cache);
/** Gives the number of bytes that this rank holds: its part of level 2, and what batches in flight take. */
weir_status weir_cache_memory_bytes(const weir_cache* cache, int64_t* bytes);

/** The samples that a rank works on in one step. They are in the loader's memory, valid until its next weir_loader_next. Set
 *  struct_size before the call. */
typedef struct weir_sample_batch {
  size_t struct_size;
  int64_t epoch;          /**< from 0 */
  int64_t step;           /**< from 0 */
  int64_t count;          /**< number of samples; fewer than the loader's batch at the end of an epoch, possibly none */
  int64_t value_bytes;    /**< bytes from one value to the next */
  const int64_t* samples; /**< numbers of the samples */
  const void* values;     /**< count x value_bytes */
  const int64_t* sizes;   /**< bytes of each value; -1: skipped */
} weir_sample_batch;

/** Collective. Makes a loader, which the caller owns and destroys with weir_loader_destroy. On error *loader is NULL. */
weir_status weir_loader_create(weir_cache* cache, const weir_sample_loader_config* config, weir_loader** loader);
/** Not collective. NULL is fine. */
weir_status weir_loader_destroy(weir_loader* loader);
/** Collective, blocking until the batch is there. *there becomes 1. At the end of an epoch it becomes 0, on all ranks, and the
 *  batch is empty; the next call begins the next epoch. */
weir_status weir_loader_next(weir_loader* loader, weir_sample_batch* batch, int* there);
/** Give the epoch of the next batch, its step, and the number of steps of that epoch; epochs and steps count from 0. At the end
 *  of an epoch, they give the epoch that ends, and as step the number of its steps. */
weir_status weir_loader_epoch(const weir_loader* loader, int64_t* epoch);
weir_status weir_loader_step(const weir_loader* loader, int64_t* step);
weir_status weir_loader_steps(const weir_loader* loader, int64_t* steps);
/** Returns, as a line of text for weir_checkpoint_set_text, where the run is after the batches that weir_loader_next has given.
 *  Valid until the next call for this loader; NULL for a NULL loader. */
const char* weir_loader_position(const weir_loader* loader);
/** Collective, blocking. Goes on from a position. From the end of an epoch it goes on with the next one, which weir_loader_epoch
 *  then says. */
weir_status weir_loader_seek(weir_loader* loader, const char* position);
/** Gives the configuration in force. */
weir_status weir_loader_get_config(const weir_loader* loader, weir_sample_loader_config* config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
