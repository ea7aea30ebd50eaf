/* weir/datacache.h: the C interface of the sample cache: training samples that are read and decoded once, and live in the memory of
 * the nodes. C11. Errors, struct_size, collective calls and thread-safety are as in weir/weir.h; what happens in which call, as in
 * weir/datacache.hpp.
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
typedef struct weir_cache weir_cache;   /**< its samples, kept by the ranks of the nodes */
typedef struct weir_loader weir_loader; /**< epochs over them */

/* Sources. A rank makes its own, of the same data as the others; making one is not collective. They belong to no communicator:
 * their errors are told by weir_last_error(NULL), and any thread may use them at any time. */

/** As record_source, idx_source, npy_source, hdf5_source and jpeg_source of weir/datacache.hpp. `labels` may be NULL: none.
 *  *source is owned by the caller; see weir_source_destroy. On error *source is NULL. */
weir_status weir_source_create_records(const char* path, int64_t record_bytes, int64_t header_bytes, weir_source** source);
weir_status weir_source_create_idx(const char* path, const char* labels, weir_source** source);
weir_status weir_source_create_npy(const char* path, const char* labels, weir_source** source);
weir_status weir_source_create_hdf5(const char* path, const char* dataset, const char* labels, weir_source** source);
weir_status weir_source_create_jpeg(const char* folder, int height, int width, weir_source** source);

/** One call of a function of weir_source_functions; valid during it. */
typedef struct weir_source_call weir_source_call;

/** A format of the caller's own. Start from WEIR_SOURCE_FUNCTIONS_INIT. `read` and `decode` are called by threads of the library,
 *  each by as many at once as weir_sample_cache_config::threads says, so they must be thread-safe. They must not call Weir, except
 *  weir_source_append and weir_source_fail, and must not throw. They return WEIR_OK, or what is wrong, WEIR_ERR_FILE for instance,
 *  after weir_source_fail. */
typedef struct weir_source_functions {
  size_t struct_size;
  int64_t size;         /**< samples of the data set */
  int64_t value_bytes;  /**< of a decoded sample, at most */
  const char* identity; /**< a line that is another one when the data are others; see SampleSource::identity. Copied */
  int32_t variable;     /**< 1: decoded samples may be shorter than value_bytes */
  int32_t reserved;
  /** Reads samples [first, first + count) from the store, as they are there: appends their bytes, one after the other, by
   *  weir_source_append, and writes how many each has to sizes, `count` long. */
  weir_status (*read)(void* user, int64_t first, int64_t count, int64_t* sizes, weir_source_call* call);
  /** Decodes the `encoded_bytes` of a sample into `value`. *value_bytes is how many that has room for, and becomes how many the
   *  decoded sample has. NULL: samples are copied. */
  weir_status (*decode)(void* user, int64_t sample, const void* encoded, int64_t encoded_bytes, void* value, int64_t* value_bytes,
                        weir_source_call* call);
  /** Once: by weir_source_close, or when nothing uses the source any more, in the thread that destroys the last that did. NULL:
   *  nothing is called. */
  void (*release)(void* user);
} weir_source_functions;
#define WEIR_SOURCE_FUNCTIONS_INIT \
  { sizeof(weir_source_functions), 0, 0, "", 0, 0, NULL, NULL, NULL }

/** A source whose samples `functions` read and decode; each gets `user`. On error nothing is released. */
weir_status weir_source_create(const weir_source_functions* functions, void* user, weir_source** source);
/** Within `read`: *room becomes the address of `bytes` more bytes, behind those appended before, whose addresses change. */
weir_status weir_source_append(weir_source_call* call, int64_t bytes, void** room);
/** Within `read` and `decode`: what is wrong, as a text, which the error of the batch repeats. */
weir_status weir_source_fail(weir_source_call* call, const char* text);

/** A cache that was made of it goes on using it. NULL is fine. */
weir_status weir_source_destroy(weir_source* source);
/** Of a source of the caller's functions: waits until none is under way, releases it, and from then on calls none. Samples that
 * would have to be read or decoded end in WEIR_ERR_STATE. For programs that lose these functions, as an interpreter does that ends.
 */
weir_status weir_source_close(weir_source* source);
weir_status weir_source_size(const weir_source* source, int64_t* samples);
weir_status weir_source_value_bytes(const weir_source* source, int64_t* bytes);
/** SampleSource::identity of the source. Valid until this thread's next call; NULL for an invalid source. */
const char* weir_source_identity(const weir_source* source);
/** How the numbers of a value lie, as SampleSource::layout. Valid until this thread's next call; NULL for an invalid source. */
const char* weir_source_layout(const weir_source* source);
/** Reads and decodes one sample here and now, without a cache. `value` has room for weir_source_value_bytes; *bytes becomes how
 * many the sample has. */
weir_status weir_source_get(weir_source* source, int64_t sample, void* value, int64_t* bytes);

/** Collective. *cache is owned by the caller; see weir_cache_destroy. On error *cache is NULL. */
weir_status weir_cache_create(weir_comm* comm, const weir_sample_cache_config* config, weir_source* source, weir_cache** cache);
/** Not collective. Finishes what is in flight. Loaders that were made of it go on. NULL is fine. */
weir_status weir_cache_destroy(weir_cache* cache);

/** Collective, blocking. Each rank asks for `count` samples of its own, perhaps none. Value i goes to the bytes from i x
 *  weir_cache_value_bytes on of `values`, its number of bytes to sizes[i], -1 for one that was skipped, whose value is all zeros.
 *  `sizes` may be NULL. */
weir_status weir_cache_get(weir_cache* cache, const int64_t* samples, int64_t count, void* values, int64_t* sizes);
/** Collective, nonblocking. `samples` must last only until the call returns; `values` and `sizes` until the batch has finished.
 *  *batch becomes its number, from 0. weir_sample_cache_config::in_flight may be in flight at once; one more waits for the first of
 *  them, and returns its error where it has ended with one. */
weir_status weir_cache_start(weir_cache* cache, const int64_t* samples, int64_t count, void* values, int64_t* sizes,
                             int64_t* batch);
/** Collective, in place of weir_cache_start or weir_cache_get where this rank has nothing right to give to them, as bindings of
 *  other languages find out: the batch ends with WEIR_ERR_ARGUMENT on all ranks, and a text that names the rank and says `why`.
 *  *batch as in weir_cache_start. */
weir_status weir_cache_refuse(weir_cache* cache, const char* why, int64_t* batch);
/** Makes progress on everything in flight; *done becomes 1 once the batch has finished. Its error is returned once. A
 *  batch that was waited for before is finished. */
weir_status weir_cache_test(weir_cache* cache, int64_t batch, int* done);
weir_status weir_cache_wait(weir_cache* cache, int64_t batch);
/** As weir_plan_wait_for. */
weir_status weir_cache_wait_for(weir_cache* cache, int64_t batch, double seconds, int* done);

weir_status weir_cache_size(const weir_cache* cache, int64_t* samples);
weir_status weir_cache_value_bytes(const weir_cache* cache, int64_t* bytes);
/** *rank becomes whose sample this is. */
weir_status weir_cache_owner(const weir_cache* cache, int64_t sample, int* rank);
weir_status weir_cache_get_statistics(const weir_cache* cache, weir_sample_cache_statistics* statistics);
/** What is in force. Texts are valid as long as the cache. */
weir_status weir_cache_get_config(const weir_cache* cache, weir_sample_cache_config* config);
/** Returns, as text, how much of the data set fits where. Valid until the next call for this cache; NULL for a NULL cache. */
const char* weir_cache_explanation(const weir_cache* cache);
weir_status weir_cache_memory_bytes(const weir_cache* cache, int64_t* bytes);

/** What a rank works on in one step: the loader's memory, valid until its next weir_loader_next. Set struct_size before the call.
 */
typedef struct weir_sample_batch {
  size_t struct_size;
  int64_t epoch;          /**< from 0 */
  int64_t step;           /**< from 0 */
  int64_t count;          /**< samples; fewer than the loader's batch at the end of an epoch, perhaps none */
  int64_t value_bytes;    /**< from one value to the next */
  const int64_t* samples; /**< their numbers */
  const void* values;     /**< count x value_bytes */
  const int64_t* sizes;   /**< bytes of each; -1: skipped */
} weir_sample_batch;

/** Collective. *loader is owned by the caller; see weir_loader_destroy. On error *loader is NULL. */
weir_status weir_loader_create(weir_cache* cache, const weir_sample_loader_config* config, weir_loader** loader);
/** Not collective. NULL is fine. */
weir_status weir_loader_destroy(weir_loader* loader);
/** Collective, blocking until the batch is there: *there becomes 1. At the end of an epoch it becomes 0, on all ranks alike, and
 * the batch is empty; the next call begins the next one. */
weir_status weir_loader_next(weir_loader* loader, weir_sample_batch* batch, int* there);
/** The epoch and the step of the next batch, from 0; at the end of an epoch that one, and as many steps as it has. How many these
 *  are. */
weir_status weir_loader_epoch(const weir_loader* loader, int64_t* epoch);
weir_status weir_loader_step(const weir_loader* loader, int64_t* step);
weir_status weir_loader_steps(const weir_loader* loader, int64_t* steps);
/** Where the run is, after the batches that weir_loader_next has given, as a line of text, for weir_checkpoint_set_text. Valid
 * until the next call for this loader; NULL for a NULL loader. */
const char* weir_loader_position(const weir_loader* loader);
/** Collective, blocking. Goes on from a position; from the end of an epoch with the next one, which weir_loader_epoch then says. */
weir_status weir_loader_seek(weir_loader* loader, const char* position);
/** What is in force. */
weir_status weir_loader_get_config(const weir_loader* loader, weir_sample_loader_config* config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
