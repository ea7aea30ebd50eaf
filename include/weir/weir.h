/* weir/weir.h: the C interface of Weir. C11, and C99 where <stdint.h> is. Stable: see the ABI notes in capi/README.md.
 *
 * Every call returns a weir_status; weir_last_error() has the text, which says what was wrong and what would be right. No exception
 * crosses the interface, and no call ends the process.
 *
 * Config and result structs start with struct_size. Initialise configs with their initializer, and set struct_size of structs that
 * a call fills. A smaller struct_size, of an older header, is fine: fields beyond it keep the initializer's values, or are not
 * filled. A larger one, of a newer header, is fine as long as the fields that this library does not know are zero.
 *
 * "Collective" calls must be made by every rank. They report bad input of one rank on every rank.
 *
 * Thread-safety. A communicator and everything made from it belong to one thread at a time. A call that finds another one under way
 * in another thread returns WEIR_ERR_BUSY. Functions without a communicator may be called by any thread at any time. A progress
 * thread (WEIR_PROGRESS_THREAD) does not count as a thread of the caller.
 *
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

/** Returns the version of the library in use; any pointer may be NULL. */
void weir_version(int* major, int* minor, int* patch);
/** Returns the text of a status code; never NULL. */
const char* weir_status_string(weir_status status);
/** Returns the text of the last error on `comm`; with comm NULL, of this thread's last error, whatever it was about. Valid until
 *  the next call. The text stays after calls that succeed, so look at it only if a call has returned an error. Calls of a second
 *  thread (WEIR_ERR_BUSY) and calls on dead handles, including a destroyed communicator, are not errors of the communicator: ask
 *  with NULL. */
const char* weir_last_error(const weir_comm* comm);
/** Returns the name of the algorithm number `index`; NULL past the last. */
const char* weir_algorithm_name(int index);
/** Gives the algorithm number `index`; its texts live as long as the library. Returns WEIR_ERR_ARGUMENT past the last. */
weir_status weir_algorithm(int index, weir_algorithm_info* info);
/** Returns the name of the compressor number `index`; NULL past the last. */
const char* weir_compressor_name(int index);
/** Gives the compressor number `index`; its texts live as long as the library. Returns WEIR_ERR_ARGUMENT past the last. */
weir_status weir_compressor(int index, weir_compressor_info* info);
/** Gives the WEIR_* environment variable number `index`, its value in force, and where that value comes from. The texts are
 *  valid until this thread's next call. Returns WEIR_ERR_ARGUMENT past the last. */
weir_status weir_setting(int index, weir_setting_info* info);
/** Returns the name of a level; NULL for a number of no level. */
const char* weir_level_name(int32_t level);

/** Takes one message of the library. `level` is a weir_log_level; `text` is one line without its end, valid during the call. Any
 *  thread that calls Weir may call the function. The function must not throw. It may call only those functions of Weir that need
 *  no communicator, among them weir_set_log_function; messages that these cause go to stderr. */
typedef void (*weir_log_function)(void* context, int32_t level, const char* text);
/** Sends messages to `function`, with `context`, instead of stderr from now on; NULL brings stderr back. WEIR_LOG still says
 *  which messages are logged. */
weir_status weir_set_log_function(weir_log_function function, void* context);

/** Initialises MPI unless the program has done so, with MPI_THREAD_MULTIPLE if the library has it. Meant for programs that do
 *  not call MPI themselves. Two threads must not call it at once, and none may change the environment meanwhile.
 *
 *  Under mpirun or srun, MPI learns from these which processes belong together. If RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
 *  are set instead, as by torchrun, the call is collective over the WORLD_SIZE processes: it waits for all, and connects them.
 *  Returns WEIR_ERR_SETTING if these variables make no sense or differ, WEIR_ERR_TIMEOUT if a process does not come within
 *  WEIR_TIMEOUT, and WEIR_ERR_TRANSPORT if rank 0 cannot listen. Returns WEIR_ERR_UNSUPPORTED if another MPI than Weir's is loaded,
 *  or if this MPI can only be started by its own launcher (Open MPI). */
weir_status weir_init(void);
/** Collective. Finalises MPI if weir_init has initialised it, else does nothing. Destroy communicators before. Returns
 *  WEIR_ERR_STATE if making a communicator has timed out and ranks are still missing: MPI cannot be finalised then, so end the
 *  process without it. */
weir_status weir_finalize(void);
/** Returns the MPI that Weir was built for: "Open MPI", or "MPICH" for all libraries of its ABI. */
const char* weir_mpi_family(void);
/** Returns what the MPI library in use says of itself: MPI_Get_library_version. */
const char* weir_mpi_library(void);

/** Collective over all ranks of the program. Makes a communicator from MPI_COMM_WORLD, which it duplicates. Call weir_init
 *  before if MPI is not initialised. weir_comm_create_mpi (weir/mpi.h) and weir_comm_create_fortran take other communicators.
 *
 *  Returns WEIR_ERR_UNSUPPORTED in a program that runs on another MPI than Weir was built for (weir_mpi_family), or that another
 *  MPI's launcher has started as one of several. The caller owns `*comm`, and destroys it with weir_comm_destroy, which is
 *  collective, too. On error *comm is NULL. */
weir_status weir_comm_create_world(weir_comm** comm);
/** Collective. Does the same for a communicator given by its Fortran handle, an MPI_Fint (in C MPI_Comm_c2f, in mpi4py
 *  comm.py2f()). */
weir_status weir_comm_create_fortran(int32_t mpi_comm, weir_comm** comm);
/** Gives this rank's number, from 0. */
weir_status weir_comm_rank(const weir_comm* comm, int* rank);
/** Gives the number of ranks. */
weir_status weir_comm_size(const weir_comm* comm, int* size);
/** Returns the machine as this communicator sees it, as an indented tree of switch groups, nodes, sockets and ranks. Valid as
 *  long as the communicator; NULL for an invalid handle. */
const char* weir_comm_topology(const weir_comm* comm);
/** Gives the nearest common level of this rank and `peer`: a weir_level. */
weir_status weir_comm_level(const weir_comm* comm, int peer, int32_t* level);
/** Gives the ranks that share `level` with this rank, in ascending order; for WEIR_LEVEL_NODE, those of its node. This rank is
 *  one of them. *count becomes their number. ranks[] gets them if its length, `size`, suffices; else the call returns
 *  WEIR_ERR_ARGUMENT. With ranks NULL, gives only *count. */
weir_status weir_comm_group(const weir_comm* comm, int32_t level, int* ranks, int size, int* count);
/** Collective over the `count` ranks in `ranks` alone: no other rank calls it. Makes a communicator of these ranks of `comm`. All
 *  of them give the same list; ranks[i] becomes rank i. Ranks that are in several subgroups make these in the same order. The new
 *  communicator has the settings of `comm`, and what that knows of the machine. The caller owns `*subgroup`, and destroys it with
 *  weir_comm_destroy, before or after `comm`.
 *
 *  Returns the same error on all of `ranks`: WEIR_ERR_ARGUMENT for a list that is empty or has a rank twice or a rank that does not
 *  exist, WEIR_ERR_MISMATCH if their lists differ, and WEIR_ERR_TIMEOUT, naming the missing ranks, if not all come in time. Returns
 *  WEIR_ERR_ARGUMENT on a rank alone that is not in its own list, or gives none. On error *subgroup is NULL. */
weir_status weir_comm_subgroup(weir_comm* comm, const int* ranks, int count, weir_comm** subgroup);
/** Collective. Gives the number of the GPU that this rank should use, for cudaSetDevice; -1 if this process sees no GPU. The
 *  ranks of a node share its GPUs evenly, each on its own NUMA node where possible. */
weir_status weir_comm_nearest_gpu(const weir_comm* comm, int* gpu);
/** Collective. shares[r] becomes rank r's share of the time for which ranks have waited for others in their last `runs` calls (1
 *  to 2048). For each of its calls, every rank counts its longest wait for one message against the rank that sent it. The shares
 *  add up to 1, or to 0 if no rank has waited. Ranks that wait for a late rank make others wait in turn. `size` is the length of
 *  shares, at least the number of ranks; a smaller one is an error of this rank alone. */
weir_status weir_comm_stragglers(weir_comm* comm, int runs, double* shares, int size);
/** Collective, blocking. Copies the `data` of rank `root`, `bytes` bytes in host memory, to every rank. Meant for the few bytes
 *  of a setup, such as addresses, seeds and options. All ranks give the same number of bytes, at most 1 MiB, and the same root;
 *  otherwise the call returns WEIR_ERR_ARGUMENT on all ranks. */
weir_status weir_comm_broadcast(weir_comm* comm, void* data, int64_t bytes, int root);
/** Collective, blocking. Gathers `mine`, `bytes` bytes of every rank, into `all`, in rank order. `all` has the number of ranks
 *  times as many bytes. The same limit and errors hold as for weir_comm_broadcast. */
weir_status weir_comm_allgather(weir_comm* comm, const void* mine, int64_t bytes, void* all);
/** Collective, blocking. Sets each of the `fields` sums to the sum of its values over all ranks, with the same bits however the
 *  values are divided among ranks, and in whatever order they come. `values` are `count` numbers of `type`, float32 or float64:
 *  those of sums[0], then as many of sums[1], and so on. Each rank may give another `count`, also 0, and another type. The
 *  result is the exact sum of the values, each rounded to a multiple of a unit, and is rounded once. The unit is at most 2^-84
 *  times the largest magnitude of any rank. NaN, or infinities of both signs, give NaN. Up to 8 sums take one exchange, in which
 *  every rank gets about 750 bytes of every other; each 16 more take another one. Returns WEIR_ERR_ARGUMENT on all ranks if
 *  `count` is no multiple of `fields`, if ranks ask for different numbers of sums, and for more than 2^34 values in all. */
weir_status weir_comm_sum(weir_comm* comm, const void* values, int64_t count, int32_t type, double* sums, int64_t fields);
/** Not collective. Writes the flight recorder's dump to the file `path`: the last 2,048 calls of this rank, as JSON. Makes
 *  missing folders of the path. `weir trace diagnose` reads the files of a folder that are called weir-dump.cC.rankR.json, with
 *  any number C for the communicator and the rank for R. */
weir_status weir_comm_dump(weir_comm* comm, const char* path);
/** Collective: takes the place of a call that makes something of the communicator, such as weir_plan_create, on a rank that has
 *  no valid arguments for it. Bindings of other languages call it if their checks fail. The call that it replaces ends with
 *  WEIR_ERR_ARGUMENT on all ranks; its text names the rank and says `why`. `what` is what was to be made, for example "plan"; it
 *  is in this rank's own text. */
weir_status weir_comm_refuse(weir_comm* comm, const char* what, const char* why);
/** Collective: all ranks destroy the communicator before MPI_Finalize, and several communicators in the same order. After
 *  MPI_Finalize, and after a run that broke off, its MPI objects are not freed. MPI_Finalize first drives runs that are in
 *  flight to their end, or to their deadline; sparse algorithms then no longer write their dense result. NULL is fine. Returns
 *  WEIR_ERR_BUSY while plans or tables made from the communicator exist. It then stays usable; destroy those first. */
weir_status weir_comm_destroy(weir_comm* comm);

/** Collective. Makes a plan, which the caller owns and destroys with weir_plan_destroy. On error *plan is NULL. */
weir_status weir_plan_create(weir_comm* comm, const weir_allreduce_config* config, weir_plan** plan);
/** Not collective. Finishes a run in flight, since the other ranks wait for it. A sparse algorithm then no longer writes its
 *  dense result; a dense one still does. NULL is fine. */
weir_status weir_plan_destroy(weir_plan* plan);

/** Collective, blocking. Overwrites `gradient`, `count` elements of the plan's type, with the update. */
weir_status weir_plan_run(weir_plan* plan, void* gradient);
/** Collective, blocking. Only reads `gradient`; `result`, which may be NULL, gets the update. */
weir_status weir_plan_run_sparse(weir_plan* plan, const void* gradient, weir_sparse_result* result);
/** Collective, nonblocking. Selects here, and communicates in test and wait. Leave `gradient` alone until the run has finished.
 *
 *  Sparse algorithms never touch it once the run has ended, however it ended. Dense ones exchange in place: after a timeout or
 *  another error that breaks the run off, the gradient must live until the process ends; the error's text says so. While a run
 *  that writes its result into a gradient is in flight, another run on any part of that gradient is an error on all ranks.
 *
 *  The run counts as in flight until this rank has waited for it, or tested until it had finished. Until then the next start is
 *  refused (WEIR_ERR_BUSY), and so is every call that refuses while a run is in flight. Ranks that do the same are refused in
 *  the same way. */
weir_status weir_plan_start(weir_plan* plan, void* gradient);
/** Does the same without a dense result: only reads `gradient`. weir_plan_sparse_result has the update. */
weir_status weir_plan_start_sparse(weir_plan* plan, const void* gradient);
/** Does the same for plans in CUDA memory. `stream` is a cudaStream_t: the run comes after the work that is on it, and work put
 *  onto it once the run has finished sees the result. The functions above use the default stream. */
weir_status weir_plan_run_on_stream(weir_plan* plan, void* gradient, void* stream);
weir_status weir_plan_run_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream, weir_sparse_result* result);
weir_status weir_plan_start_on_stream(weir_plan* plan, void* gradient, void* stream);
weir_status weir_plan_start_sparse_on_stream(weir_plan* plan, const void* gradient, void* stream);
/** Makes progress on everything in flight on the communicator. *done becomes 1 when this plan's run has finished. Communication
 *  advances only inside such calls: if the caller never tests, most of a run happens in its wait. With WEIR_PROGRESS_THREAD, a
 *  thread of this rank advances it meanwhile (weir/weir.hpp, Operation). */
weir_status weir_plan_test(weir_plan* plan, int* done);
/** Drives everything in flight on the communicator until this plan's run has finished. */
weir_status weir_plan_wait(weir_plan* plan);
/** Waits for at most `seconds`, 0 or more, with at least one round of progress. *done becomes 1 when this plan's run has
 *  finished. Meant for callers that look after something else while they wait, such as signals. */
weir_status weir_plan_wait_for(weir_plan* plan, double seconds, int* done);

/** Gives the update of the last finished run; empty for dense and packed algorithms. Returns WEIR_ERR_BUSY while a run is in
 *  flight. */
weir_status weir_plan_sparse_result(const weir_plan* plan, weir_sparse_result* result);
/** Gives what the last run did on this rank. */
weir_status weir_plan_get_statistics(const weir_plan* plan, weir_statistics* statistics);
/** *runs becomes the number of this plan's runs that did what `name` says, such as "recut", on this rank since the plan was
 *  made, reset or restored; 0 for what only other algorithms count. weir_algorithm_info's `counters` lists the names of an
 *  algorithm. */
weir_status weir_plan_counter(const weir_plan* plan, const char* name, int64_t* runs);
/** Gives what error feedback keeps on this rank. Returns WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_plan_residual(const weir_plan* plan, weir_residual* residual);
/** Gives the configuration in force. `algorithm_parameters`, `compressor`, `compressor_parameters` and `error_feedback` are
 *  filled in if they were left to the defaults. With automatic choice, `algorithm`, `wire_format`, `wire_values` and the
 *  compressor are the present choice. `k` and `threads` stay as given, as do schedule=automatic and radix=0. Texts are valid
 *  until the plan's next start or destruction. */
weir_status weir_plan_get_config(const weir_plan* plan, weir_allreduce_config* config);
/** Gives the number of bytes that this plan holds, besides the caller's gradient. */
weir_status weir_plan_memory_bytes(const weir_plan* plan, int64_t* bytes);
/** Gives the number of bytes that weir_plan_save_state writes at present. Returns WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_plan_state_bytes(weir_plan* plan, int64_t* bytes);
/** Writes what lives from one iteration to the next (residual, thresholds, boundaries, iteration count) into `state`, host
 *  memory of `bytes` bytes, exactly weir_plan_state_bytes. Each rank saves its own state. All ranks must be at the same
 *  iteration. */
weir_status weir_plan_save_state(weir_plan* plan, void* state, int64_t bytes);
/** Continues where the plan that saved `state` left off. That plan had the same count, type, algorithm, compressor with its
 *  parameters, and error_feedback, on the same rank and with the same number of ranks. Other fields may differ; those of this
 *  plan are in force. Returns WEIR_ERR_ARGUMENT, naming the field, if the state is damaged or does not fit; the plan is then as
 *  it was. Sends nothing: the caller sees to it that all ranks restore the same iteration, or none. */
weir_status weir_plan_restore_state(weir_plan* plan, const void* state, int64_t bytes);
/** Gives the largest number of bytes that one weir_plan_encode writes, for callers that move the bytes themselves. Returns
 *  WEIR_ERR_STATE if the plan cannot encode. To encode, the algorithm must be sparse or packed and be flat (or run so), the type
 *  float32, the memory host, error_feedback not ef21 and dense_iterations 0, and automatic choice must have decided. */
weir_status weir_plan_encoded_bytes(const weir_plan* plan, int64_t* bytes);
/** Not collective. Compresses `gradient`, `count` floats, as this rank's next run would, and writes it to `out`, which has room
 *  for `size` bytes, at least weir_plan_encoded_bytes. What it writes is self-describing and has a checksum. *bytes becomes the
 *  number of bytes written. weir_decode reads them anywhere; the caller sums over ranks. Counts as a run that delivered
 *  everything: residual, momentum, schedules and random numbers move on, unless the call fails. With WEIR_NON_FINITE_SKIP, a
 *  gradient with NaN or infinity is encoded as zeros. Returns WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_plan_encode(weir_plan* plan, const void* gradient, void* out, int64_t size, int64_t* bytes);
/** Gives what the `size` bytes that weir_plan_encode wrote say of themselves. Returns WEIR_ERR_ARGUMENT if they are truncated,
 *  damaged, of another version, or nothing of the kind. Texts are valid until this thread's next call of this function. */
weir_status weir_encoded_inspect(const void* encoded, int64_t size, weir_encoded_info* info);
/** Writes to `values` the part of the gradient that was delivered, undivided; with `add` nonzero, adds it to them. `values` are
 *  `count` floats, as many as the gradient had. Returns WEIR_ERR_ARGUMENT as weir_encoded_inspect does, and also if the payload
 *  makes no sense or this library does not know the compressor. The values are then as they were with `add`, and undefined
 *  without. */
weir_status weir_decode(const void* encoded, int64_t size, float* values, int64_t count, int32_t add);
/** Returns, as text, why the plan uses this algorithm. With automatic choice, the text has a table of the predictions; trials
 *  may have chosen another algorithm than the first of them: see weir_plan_get_config. Valid as long as the plan; NULL for a
 *  NULL plan. */
const char* weir_plan_explanation(const weir_plan* plan);
/** Forgets residual, thresholds, boundaries and iteration count. Sends nothing, but every rank must call it before the same run.
 *  If only some ranks reset their plans, the ranks disagree about that run, which may end in a transport error. */
weir_status weir_plan_reset(weir_plan* plan);
/** Says that gradients will be `factor` times what they have been, for example because a loss scale changes. Multiplies
 *  residual, momentum, EF21's states and thresholds by `factor`; a value beyond the range of the type becomes its largest finite
 *  value. With a power of two and no value beyond the range, later results have the same bits as if gradients had been of the
 *  new size from the start. Sends nothing, but every rank must call it before the same run, with the same factor. Returns
 *  WEIR_ERR_ARGUMENT if the factor is not positive and finite in the type, and WEIR_ERR_BUSY while a run is in flight. */
weir_status weir_plan_scale_residual(weir_plan* plan, double factor);

/* Block-level horizontal scheduling (EmbRace section 4.2.1): what the next forward pass needs first travels first. Purely local: a
 * schedule communicates only through the runs that it is given. Errors of a run are as for weir_plan_wait. */

/** Takes the names of a model's blocks in the order of its forward pass, all different, and copies them. Plans that are given to
 *  the schedule must come from `comm`, and outlive their runs. On error *schedule is NULL. */
weir_status weir_schedule_create(weir_comm* comm, const char* const* blocks, int count, weir_schedule** schedule);
/** Not collective. Forgets what is in flight; the plans still finish it. NULL is fine. */
weir_status weir_schedule_destroy(weir_schedule* schedule);
/** Gives the priority for everything in this block. The first block's is the number of blocks; the last one's is 1. */
weir_status weir_schedule_priority(const weir_schedule* schedule, const char* block, int* priority);
/** Notes the run that `plan` has in flight as one of this block. */
weir_status weir_schedule_started(weir_schedule* schedule, const char* block, weir_plan* plan);
/** Makes progress on everything in flight. *done becomes 1 once nothing of this block is in flight. */
weir_status weir_schedule_test(weir_schedule* schedule, const char* block, int* done);
/** Waits until nothing of this block is in flight. */
weir_status weir_schedule_wait(weir_schedule* schedule, const char* block);
/** Waits until nothing of any block is in flight. */
weir_status weir_schedule_wait_all(weir_schedule* schedule);
/** *operations becomes the number of this block's operations that were in flight as of the last test or wait. */
weir_status weir_schedule_pending(const weir_schedule* schedule, const char* block, int* operations);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
