// process_group.hpp: what the "weir" backend of torch.distributed needs. It serves the Python package only, is not installed, and
// is no part of the C ABI: it may change with any version. _torch_calls.py has the same declarations.
#pragma once

#include <weir/mpi.h>

namespace weir::capi {

/// Kinds of calls. Counts are in elements.
enum class GroupCall : std::int32_t {
  barrier,
  broadcast,       ///< `recv` has `count` elements
  all_reduce,      ///< in place: `recv` has `count` elements
  reduce,          ///< in place at the root; the others' `recv` is only read
  all_gather,      ///< `send` has `count` elements
  all_gather_v,    ///< `send` has `count` elements, `recv` has `recv_counts`
  gather,          ///< `send` has `count` elements; `recv` is for the root
  scatter,         ///< `recv` has `count` elements; `send` is for the root
  reduce_scatter,  ///< `recv` has `count` elements
  all_to_all_v,
  send,
  receive,  ///< `peer` may be -1: any rank
  turn,     ///< finishes when all earlier turns and large sums are over; later ones wait until it is forgotten
};

enum class GroupType : std::int32_t { uint8, int8, int16, int32, int64, uint16, uint32, uint64, float32, float64, wide };
enum class GroupOperation : std::int32_t { sum, product, min, max, bit_and, bit_or, bit_xor };

}  // namespace weir::capi

extern "C" {
#pragma GCC visibility push(default)

struct weir_group;

typedef struct weir_group_call {
  std::int32_t kind, operation, type;  ///< of the enumerations above; `wide` has 16 bytes, and is not summed
  std::int32_t peer;                   ///< the root, or the other rank
  std::int32_t tag;
  std::int32_t in_turn;  ///< part of the turn that this rank has: it does not come between other calls
  std::int64_t count;
  const void* send;
  void* recv;
  const std::int32_t* send_counts;  ///< one for each rank; copied
  const std::int32_t* recv_counts;
} weir_group_call;

typedef void (*weir_group_function)(std::int64_t call);

/** Returns this process's place in MPI_COMM_WORLD. MPI must be initialised. */
weir_status weir_group_world(std::int32_t* rank, std::int32_t* size);
/** Collective over `ranks` of MPI_COMM_WORLD, in which this process is. Groups that are made at the same time have different tags.
 * Sets the error handler of MPI_COMM_WORLD to MPI_ERRORS_RETURN if it was MPI_ERRORS_ARE_FATAL. */
weir_status weir_group_create(const std::int32_t* ranks, std::int32_t count, std::int32_t tag, weir_group** group);
/** Starts a call; `*id` is its number, unique in the process. Buffers stay untouched until it has finished. */
weir_status weir_group_start(weir_group* group, const weir_group_call* call, std::int64_t* id);
/** Waits until a call has finished, for at most `seconds`. `*source` is the rank that was received from. Returns its error. */
weir_status weir_group_wait(weir_group* group, std::int64_t id, double seconds, std::int32_t* done, std::int32_t* source);
/** Has a thread of the library call `function` once the call has finished. If it has, sets `*done` instead. The call ends with
 * WEIR_ERR_TIMEOUT if it has not finished `seconds` after its start. */
weir_status weir_group_notify(weir_group* group, std::int64_t id, double seconds, weir_group_function function, std::int32_t* done);
/** Forgets a call that has finished. Ends a turn. After WEIR_ERR_TIMEOUT or WEIR_ERR_TRANSPORT, MPI may use the buffers until the
 * process ends. */
weir_status weir_group_forget(weir_group* group, std::int64_t id);
/** Cancels receives, waits at most `seconds` for the other calls, and destroys the group. If calls are left, it stays as it is
 * until the process ends, which must not finalise MPI: `*left` is their number. */
weir_status weir_group_destroy(weir_group* group, double seconds, std::int32_t* left);

#pragma GCC visibility pop
}
