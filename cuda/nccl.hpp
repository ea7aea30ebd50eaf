// nccl.hpp: NCCL, loaded when it is first asked for: programs run without it. No NCCL or CUDA header is needed to include this
// file; streams are void* (cudaStream_t).
//
// NCCL and a CUDA-aware MPI must not work on one GPU at once: each may wait for what the other keeps the GPU from doing. So plans
// of a Communicator that uses NCCL stage their messages in host memory, whatever MPI accepts. A Communicator with plans that hand
// GPU memory to MPI does not begin to use NCCL. Other Communicators on the same GPU do not know of this: start them with
// WEIR_CUDA_AWARE_MPI=off.
//
// A build without NCCL has only why_no_nccl(), which says so, and functions that throw that.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <weir/weir.hpp>

#include "base/completion.hpp"

namespace weir::cuda {

/// Returns why NCCL cannot be used (built without it, not installed, older than 2.27.3); empty if it can.
[[nodiscard]] std::string why_no_nccl();

/// Returns the version of the library in use, as NCCL counts: 22809 is 2.28.9.
[[nodiscard]] int nccl_version();
[[nodiscard]] std::string nccl_version_text(int version);

/// An id that all ranks of a new communicator must use. Plain bytes.
using NcclId = std::array<std::byte, 128>;
[[nodiscard]] NcclId make_nccl_id();

/// One rank's end of a NCCL communicator. Nonblocking: operations proceed in the background, and reached() says when they are on
/// the stream. Operations are collective: all ranks call them in the same order, with the same arguments except pointers and
/// streams. Elements have any type of a plan. Sums are in that type, in an order that NCCL chooses, and the same on every rank.
class NcclCommunicator final : public Completion {
 public:
  /// Rank r has part r of an array, elements bounds[r] to bounds[r + 1]; ranks beyond the last part have no part.
  using Bounds = std::span<const std::int64_t>;

  /// Begins to connect, on the thread's GPU, to the other ranks with this id, each on a GPU of its own. Ready once reached() is
  /// true.
  NcclCommunicator(const NcclId& id, int rank, int size);
  /// Waits, after all operations are done, for peers that are still busy with the last of them, a few seconds at most.
  ~NcclCommunicator() override;

  /// Returns whether NCCL has connected, and put the operations so far onto the stream. Before that, call no operation, and put no
  /// more work onto that stream. Throws Error(WEIR_ERR_DEVICE) for an error of NCCL or of a peer, also in work that is on the
  /// stream.
  [[nodiscard]] bool reached() override;
  /// Disconnects from the peers and the streams, whose work ends; no operation may follow. May be called at any time, and
  /// repeatedly. Waits for that work: if it may be ordered after another communicator's, abort both with abort_all().
  void abort() noexcept;
  /// Aborts all that are not nullptr at once, so that no communicator waits for the work of another that is not yet aborted.
  static void abort_all(std::span<const std::unique_ptr<NcclCommunicator>> communicators) noexcept;

  /// Sets data[i], in place, to the sum over all ranks of data[i] * factor, each product rounded to the type.
  void allreduce(void* data, std::int64_t count, DataType type, double factor, void* stream);
  /// Sets part[i] to the sum over all ranks of data[bounds[rank] + i] * factor. `part` is either that place in `data`, or memory
  /// elsewhere. Other parts of `data` are only read.
  void reduce_scatter(const void* data, void* part, Bounds bounds, DataType type, double factor, void* stream);
  /// Gathers every rank's part on all ranks, in place.
  void allgather(void* data, Bounds bounds, DataType type, void* stream);

 private:
  void* comm_ = nullptr;  // ncclComm_t; nullptr: aborted
  int rank_, size_;
};

}  // namespace weir::cuda
