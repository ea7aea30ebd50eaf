/* weir/weir.h: the C interface of Weir. C11, and C99 where <stdint.h> is. Stable: see the ABI notes in capi/README.md.
 *
 * Every call returns a weir_status; weir_last_error() has the text, saying what was wrong and what would be right. No exception
 * crosses, and no call ends the process.
 * Config and result structs start with struct_size: initialise configs with their initializer, and set struct_size of structs that
 * a call fills. A smaller struct_size, of an older header, is fine: fields beyond it keep the initializer's values, or are not
 * filled. A larger one, of a newer header, is fine as long as the fields that this library does not know are zero.
 * "Collective" calls must be made by every rank, and report bad input on every rank alike.
 * Thread-safety: a communicator and everything made from it belong to one thread at a time: a call that finds another one under way
 * in another thread returns WEIR_ERR_BUSY. Functions without a communicator may be called by any thread at any time. A progress
 * thread (WEIR_PROGRESS_THREAD) is the library's own business.
 * A handle that was destroyed, or never made, is WEIR_ERR_ARGUMENT. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stddef.h>
#include <stdint.h>
#include <weir/status.h>
#include <weir/types.h>

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct weir_comm weir_comm;         /**< a group of ranks; see weir_comm_create_world */
typedef struct weir_plan weir_plan;         /**< one tensor's allreduce and its state */
typedef struct weir_schedule weir_schedule; /**< priorities of a model's blocks, and what is in flight for each */

/** Version of the library in use; any pointer may be NULL. */
void weir_version(int* major, int* minor, int* patch);
/** Text of a status code; never NULL. */
const char* weir_status_string(weir_status status);
/** Text of the last error on `comm`; with comm NULL, of this thread's last error, whatever it was about. Valid until the next
 *  call. It stays after calls that succeed: look at it where a call has returned an error. What a second thread has done wrong
 *  (WEIR_ERR_BUSY) and dead handles, a communicator that was destroyed too, are not the communicator's errors: ask with NULL. */
const char* weir_last_error(const weir_comm* comm);
/** Name of the algorithm number `index`, NULL past the last. */
const char* weir_algorithm_name(int index);
/** The algorithm number `index`; its texts live as long as the library. WEIR_ERR_ARGUMENT past the last. */
weir_status weir_algorithm(int index, weir_algorithm_info* info);
/** Name of the compressor number `index`, NULL past the last. */
const char* weir_compressor_name(int index);
/** The compressor number `index`; its texts live as long as the library. WEIR_ERR_ARGUMENT past the last. */
weir_status weir_compressor(int index, weir_compressor_info* info);
/** The WEIR_* environment variable number `index`, its value in force and where that came from. The texts are valid until this
 *  thread's next call. WEIR_ERR_ARGUMENT past the last. */
weir_status weir_setting(int index, weir_setting_info* info);
/** Returns the name of a level; NULL for a number of no level. */
const char* weir_level_name(int32_t level);

/** What takes the library's messages: `level` is a weir_log_level, `text` one line without an end, valid during the call. It may
 *  come from any thread that calls Weir and must not throw. Of Weir it may call functions without a communicator only, among them
 *  weir_set_log_function. Messages that these cause go to stderr. */
typedef void (*weir_log_function)(void* context, int32_t level, const char* text);
/** From now on messages go to `function`, with `context`, instead of stderr; NULL: to stderr again. WEIR_LOG still says which. */
weir_status weir_set_log_function(weir_log_function function, void* context);

/** Initialises MPI, with MPI_THREAD_MULTIPLE where the library has it, unless the program has done so. For programs that do not
 *  call MPI themselves. Not by two threads at once. WEIR_ERR_UNSUPPORTED where another MPI than Weir's is loaded. */
weir_status weir_init(void);
/** Finalises MPI where weir_init has initialised it, else does nothing. Destroy communicators before. Collective. WEIR_ERR_STATE
 *  where making a communicator has timed out and ranks are still missing: MPI cannot be finalised then; end the process without. */
weir_status weir_finalize(void);
/** The MPI that Weir was built for: "Open MPI", or "MPICH" for all libraries of its ABI. */
const char* weir_mpi_family(void);
/** What the MPI library in use says of itself: MPI_Get_library_version. */
const char* weir_mpi_library(void);

/** Collective over all ranks of the program: from MPI_COMM_WORLD, which is duplicated. Before MPI_Init, call weir_init.
 *  From other communicators: weir_comm_create_mpi (weir/mpi.h) and weir_comm_create_fortran. WEIR_ERR_UNSUPPORTED in a program that
 *  runs on another MPI than Weir was built for (weir_mpi_family), or that another MPI's launcher has started as one of several.
 *  `*comm` is owned by the caller; see weir_comm_destroy, which is collective, too. On error *comm is NULL. */
weir_status weir_comm_create_world(weir_comm** comm);
/** Collective over a communicator given by its Fortran handle, an MPI_Fint (in C MPI_Comm_c2f, in mpi4py comm.py2f()). */
weir_status weir_comm_create_fortran(int32_t mpi_comm, weir_comm** comm);
weir_status weir_comm_rank(const weir_comm* comm, int* rank);
weir_status weir_comm_size(const weir_comm* comm, int* size);
/** The machine as this communicator sees it, as an indented tree of switch groups, nodes, sockets and ranks. Valid as long as the
 *  communicator; NULL for an invalid handle. */
const char* weir_comm_topology(const weir_comm* comm);
/** Nearest common level of this rank and `peer`: a weir_level. */
weir_status weir_comm_level(const weir_comm* comm, int peer, int32_t* level);
/** The ranks, ascending, that share `level` with this rank: those of its node, say; this rank is one of them. *count becomes their
 *  number; ranks[] gets them where `size`, its length, suffices, else the call is WEIR_ERR_ARGUMENT. With ranks NULL, only *count.
 */
weir_status weir_comm_group(const weir_comm* comm, int32_t level, int* ranks, int size, int* count);
/** Collective. The number of the GPU that this rank should use, for cudaSetDevice: ranks of a node share its GPUs evenly, each on
 *  its own NUMA node where possible; -1 where this process sees none. */
weir_status weir_comm_nearest_gpu(const weir_comm* comm, int* gpu);
/** Collective. shares[r] becomes rank r's share of the time for which ranks have waited for others in their last `runs` calls (1 to
 *  2048): every rank counts, for each of its calls, the longest wait for one message, against the rank that it came from. The sum
 * is 1, or 0 where nobody has waited; those that wait for a late rank make others wait in turn. `size` is the length of shares, at
 * least the number of ranks; that it is less is an error of this rank alone. */
weir_status weir_comm_stragglers(weir_comm* comm, int runs, double* shares, int size);
/** Collective, blocking. A few bytes for setting up, such as addresses, seeds and options: `data`, `bytes` bytes in host memory,
 *  becomes that of rank `root`. All ranks give as many bytes, at most 1 MiB, and the same root: WEIR_ERR_ARGUMENT on all ranks
 *  otherwise. */
weir_status weir_comm_broadcast(weir_comm* comm, void* data, int64_t bytes, int root);
/** Collective, blocking. The same for `mine`, `bytes` bytes of every rank: `all`, of as many times the number of ranks, has them in
 *  rank order. */
weir_status weir_comm_allgather(weir_comm* comm, const void* mine, int64_t bytes, void* all);
/** Not collective. Writes the flight recorder's dump to the file `path`: the last 2,048 calls of this rank, as JSON. `weir trace
 * diagnose` reads a folder's files called weir-dump.cC.rankR.json, with any number C for the communicator and the rank for R.
 * Folders of the path that do not exist are made. */
weir_status weir_comm_dump(weir_comm* comm, const char* path);
/** Collective, in place of a call that makes something of the communicator, like weir_plan_create, where this rank has
 *  nothing right to give to it, as bindings of other languages find out: that call ends with WEIR_ERR_ARGUMENT on all ranks, and a
 *  text that names the rank and says `why`. `what` was to be made, "plan" for instance: it is in this rank's own text. */
weir_status weir_comm_refuse(weir_comm* comm, const char* what, const char* why);
/** Collective: all ranks destroy it before MPI_Finalize, several communicators in the same order. After MPI_Finalize, and after a
 *  run that broke off, its MPI objects are not freed. MPI_Finalize first drives runs that are in flight to their end, or to their
 *  deadline; sparse algorithms then no longer write their dense result. NULL is fine. WEIR_ERR_BUSY while plans or tables made from
 *  it exist: the communicator stays usable; destroy those first. */
weir_status weir_comm_destroy(weir_comm* comm);

/** Collective. The plan is owned by the caller; see weir_plan_destroy. On error *plan is NULL. */
weir_status weir_plan_create(weir_comm* comm, const weir_allreduce_config* config, weir_plan** plan);
/** Not collective. Finishes a run in flight, since the other ranks wait for it. A sparse algorithm then no longer writes its dense
 *  result; a dense one still does. NULL is fine. */
weir_status weir_plan_destroy(weir_plan* plan);

/** Collective, blocking. `gradient`, `count` elements of the plan's type, is overwritten with the update. */
weir_status weir_plan_run(weir_plan* plan, void* gradient);
/** Collective, blocking. `gradient` is only read; `result` (may be NULL) gets the update. */
weir_status weir_plan_run_sparse(weir_plan* plan, const void* gradient, weir_sparse_result* result);
/** Collective, nonblocking: selection happens here, communication in test and wait. Leave `gradient` alone until done. Sparse
 *  algorithms never touch it once the run has ended, however it ended. Dense ones exchange in place: after a timeout or another
 * error that breaks the run off, the gradient must live until the process ends; the error's text says so. While a run that writes
 * its result into a gradient is in flight, another run on any part of that gradient is an error on all ranks. Until
 * somebody on this rank has waited for it, or tested until it had finished, the run counts as in flight: the next start is
 * refused (WEIR_ERR_BUSY), and so is every call that says so of a run in flight. Ranks that do the same are refused alike. */
weir_status weir_plan_start(weir_plan* plan, void* gradient);
weir_status weir_plan_start_sparse(weir_plan* plan, const void* gradient);
/** The same for plans in CUDA memory. `stream` is a cudaStream_t: the run comes after the work that is on it, and work put onto it
 * once the run has finished sees the result. The functions above use the default stream. */
weir_status weir_plan_run_on_stream(weir_plan* plan, void* gradient, void* stream);
weir_status weir_plan_run_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream, weir_sparse_result* result);
weir_status weir_plan_start_on_stream(weir_plan* plan, void* gradient, void* stream);
weir_status weir_plan_start_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream);
/** Makes progress on everything in flight on the communicator; *done becomes 1 when this plan's run has finished. Communication
 *  advances only inside such calls: where the caller never tests, most of a run happens in its wait; with WEIR_PROGRESS_THREAD, a
 *  thread of this rank advances it meanwhile (weir/weir.hpp, Operation). */
weir_status weir_plan_test(weir_plan* plan, int* done);
weir_status weir_plan_wait(weir_plan* plan);
/** weir_plan_wait for at most `seconds`, 0 or more, with one round of progress at least; *done becomes 1 when this plan's run has
 *  finished. For callers that look after something else while they wait, such as signals. */
weir_status weir_plan_wait_for(weir_plan* plan, double seconds, int* done);

weir_status weir_plan_sparse_result(const weir_plan* plan, weir_sparse_result* result);
weir_status weir_plan_get_statistics(const weir_plan* plan, weir_statistics* statistics);
/** *runs becomes how many of this plan's runs since it was made, reset or restored did what `name` says, such as "recut", on this
 *  rank; 0 for what only other algorithms count. weir_algorithm_info's `counters` lists the names of an algorithm. */
weir_status weir_plan_counter(const weir_plan* plan, const char* name, int64_t* runs);
/** WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_plan_residual(const weir_plan* plan, weir_residual* residual);
/** Gives what is in force: `algorithm_parameters`, `compressor`, `compressor_parameters` and `error_feedback` also where they were
 *  left to the defaults. With automatic choice, `algorithm`, `wire_format`, `wire_values` and the compressor are the present
 * choice. `k` and `threads` stay as given, as do schedule=automatic and radix=0. Texts are valid until the plan's next start or
 * destruction. */
weir_status weir_plan_get_config(const weir_plan* plan, weir_allreduce_config* config);
/** Bytes that this plan holds, besides the caller's gradient. */
weir_status weir_plan_memory_bytes(const weir_plan* plan, int64_t* bytes);
/** Bytes that weir_plan_save_state writes at present. WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_plan_state_bytes(weir_plan* plan, int64_t* bytes);
/** Writes what lives from one iteration to the next (residual, thresholds, boundaries, iteration count) into `state`, host memory
 *  of `bytes` bytes, exactly weir_plan_state_bytes. Each rank saves its own, and all must be at the same iteration. */
weir_status weir_plan_save_state(weir_plan* plan, void* state, int64_t bytes);
/** Goes on where the plan was that saved `state`: one with the same count, type, algorithm, compressor and its parameters,
 * and error_feedback, on the same rank of as many. Other fields may differ; this plan's are in force. WEIR_ERR_ARGUMENT,
 * naming the field, where the state is damaged or does not fit; the plan is then as it was. Sends nothing: see to it that all ranks
 * restore the same iteration, or none. */
weir_status weir_plan_restore_state(weir_plan* plan, const void* state, int64_t bytes);
/** For those who move bytes themselves: most bytes of one weir_plan_encode. WEIR_ERR_STATE for plans that cannot encode: the
 *  algorithm must be flat (or run so) and sparse or packed, the type float32, the memory host, error_feedback not ef21,
 *  dense_iterations 0, and automatic choice must have decided. */
weir_status weir_plan_encoded_bytes(const weir_plan* plan, int64_t* bytes);
/** Not collective. Compresses `gradient`, `count` floats, as this rank's next run would, and writes it, self-describing and with a
 *  checksum, to `out`, which has room for `size` bytes, at least weir_plan_encoded_bytes; *bytes becomes how many it takes.
 *  weir_decode reads them, anywhere; a sum over ranks is the caller's. This counts as a run, all of which was delivered: residual,
 *  momentum, schedules and random numbers move on, unless the call fails. With WEIR_NON_FINITE_SKIP a gradient with NaN or infinity
 *  is encoded as zeros. WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_plan_encode(weir_plan* plan, const void* gradient, void* out, int64_t size, int64_t* bytes);
/** What `size` bytes that weir_plan_encode has written say of themselves. WEIR_ERR_ARGUMENT where they are truncated, damaged, of
 *  another version, or nothing of the kind. Texts are valid until this thread's next call of this function. */
weir_status weir_encoded_inspect(const void* encoded, int64_t size, weir_encoded_info* info);
/** `values`, `count` floats, as many as the gradient had, become what the bytes stand for: what of the gradient was delivered,
 *  undivided. With `add` nonzero, that is added to them. WEIR_ERR_ARGUMENT as for weir_encoded_inspect, and where the payload makes
 *  no sense or this library does not know the compressor; the values then are as they were with `add`, and undefined without. */
weir_status weir_decode(const void* encoded, int64_t size, float* values, int64_t count, int32_t add);
/** Returns, as text, why the plan uses this algorithm; with automatic choice a table of predictions, of which trials may have
 *  chosen another than the first: see weir_plan_get_config. Valid as long as the plan; NULL for a NULL plan. */
const char* weir_plan_explanation(const weir_plan* plan);
/** Forgets residual, thresholds, boundaries and iteration count. Sends nothing, but every rank must call it before the same run:
 *  plans reset on some ranks only disagree about that run, which may end in a transport error. */
weir_status weir_plan_reset(weir_plan* plan);
/** Gradients will be `factor` times what they have been, as where a loss scale changes: residual, momentum, EF21's states and
 *  thresholds become `factor` times what they are; what is beyond the type then becomes its largest finite value. With a power of
 *  two and nothing beyond the type, what follows has the same bits as if gradients had been of the new size from the start. Sends
 *  nothing: every rank must call it before the same run, with the same factor. WEIR_ERR_ARGUMENT where it is not positive and
 *  finite in the type; WEIR_ERR_BUSY while a run is in flight.
 */
weir_status weir_plan_scale_residual(weir_plan* plan, double factor);

/* Block-level horizontal scheduling (EmbRace section 4.2.1): what the next forward pass needs first travels first. Purely local: a
 * schedule communicates only through the runs that it is given. Errors of a run are those of weir_plan_wait. */

/** `blocks`: the names of a model's blocks in the order of its forward pass, all different; copied. Plans that are given to it must
 *  come from `comm`, and outlive their runs. On error *schedule is NULL. */
weir_status weir_schedule_create(weir_comm* comm, const char* const* blocks, int count, weir_schedule** schedule);
/** Not collective. Forgets what is in flight; the plans still finish it. NULL is fine. */
weir_status weir_schedule_destroy(weir_schedule* schedule);
/** The priority for everything in this block: the first block's is the number of blocks, the last one's is 1. */
weir_status weir_schedule_priority(const weir_schedule* schedule, const char* block, int* priority);
/** Notes the run that `plan` has in flight as one of this block. */
weir_status weir_schedule_started(weir_schedule* schedule, const char* block, weir_plan* plan);
/** Makes progress on everything in flight; *done becomes 1 once nothing of this block is. */
weir_status weir_schedule_test(weir_schedule* schedule, const char* block, int* done);
/** Waits until nothing of this block is in flight. */
weir_status weir_schedule_wait(weir_schedule* schedule, const char* block);
/** The same for all blocks. */
weir_status weir_schedule_wait_all(weir_schedule* schedule);
/** *operations becomes how many of this block were in flight as of the last test or wait. */
weir_status weir_schedule_pending(const weir_schedule* schedule, const char* block, int* operations);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
