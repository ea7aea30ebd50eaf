// nccl.hpp: NCCL, loaded when it is first asked for: programs run where it is not installed. No NCCL or CUDA header is needed to
// include it; streams are void* (cudaStream_t).
//
// NCCL and a CUDA-aware MPI must not be at work on one GPU at once: each may wait for what the other keeps the GPU from doing.
// So plans of a Communicator that uses NCCL stage their messages in host memory, whatever MPI takes, and one with plans that hand
// GPU memory to MPI does not begin to use NCCL. Other Communicators on the same GPU do not know: start these with
// WEIR_CUDA_AWARE_MPI=off.
//
// In a build without NCCL there are only why_no_nccl(), which says so, and functions that throw it.
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

/// Empty where NCCL can be used; else the reason: built without it, not installed, older than 2.27.3.
[[nodiscard]] std::string why_no_nccl();

/// Returns the version of the library in use, as NCCL counts: 22809 is 2.28.9.
[[nodiscard]] int nccl_version();
[[nodiscard]] std::string nccl_version_text(int version);

/// What the ranks of a new communicator must have in common. Plain bytes.
using NcclId = std::array<std::byte, 128>;
[[nodiscard]] NcclId make_nccl_id();

/// One rank's end of a NCCL communicator. Nonblocking: what it is told to do goes on behind the scenes, seen by reached(). The
/// operations are collective: all ranks call them in the same order, with the same arguments except pointers and streams. Elements
/// are of any type of a plan; sums are in that type, in an order that NCCL chooses, and the same on every rank.
class NcclCommunicator final : public Completion {
 public:
  /// Part r of an array, elements bounds[r] to bounds[r + 1], is rank r's; ranks beyond the last part have none.
  using Bounds = std::span<const std::int64_t>;

  /// On the thread's GPU. Begins to connect to the other ranks of those that have this id, each on a GPU of its own; ready once it
  /// has reached().
  NcclCommunicator(const NcclId& id, int rank, int size);
  /// After all operations are done, waits for peers that are still busy with the last of these, a few seconds at most.
  ~NcclCommunicator() override;

  /// True once NCCL has connected, and put what it was told to do onto the stream: no sooner may it be told more, or may more work
  /// be put onto that stream. Throws Error(WEIR_ERR_DEVICE) for an error of NCCL or of a peer, also of work that is on the stream.
  [[nodiscard]] bool reached() override;
  /// At any time, more than once, too: lets go of the peers and of the streams, whose work ends, and cannot be used again. Waits
  /// for that work: where it may come after another communicator's, abort both with abort_all.
  void abort() noexcept;
  /// All at once, those that are not nullptr: none waits for work of another that has not been told yet.
  static void abort_all(std::span<const std::unique_ptr<NcclCommunicator>> communicators) noexcept;

  /// In place: data[i] = the sum over all ranks of data[i] * factor, each product rounded to the type.
  void allreduce(void* data, std::int64_t count, DataType type, double factor, void* stream);
  /// part[i] = the sum over all ranks of data[bounds[rank] + i] * factor. `part` is that very place of `data`, or memory elsewhere.
  /// Other parts of `data` are only read.
  void reduce_scatter(const void* data, void* part, Bounds bounds, DataType type, double factor, void* stream);
  /// In place: every rank's part reaches all.
  void allgather(void* data, Bounds bounds, DataType type, void* stream);

 private:
  void* comm_ = nullptr;  // ncclComm_t; nullptr: aborted
  int rank_, size_;
};

}  // namespace weir::cuda
