// groups.hpp: NCCL among the ranks of a Communicator: who can take part, and a NCCL communicator for each group of the topology.
//
// Each group connects by an id of its own, made by its first rank. Splitting one communicator of all ranks would make every plan
// wait for ranks that it has nothing to do with, and needs one of all ranks where only nodes exchange anything.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "communicator/communicator.hpp"
#include "cuda/nccl.hpp"
#include "cuda/runtime.hpp"

namespace weir::detail {

/// Which ranks form the group. `all`: all ranks. `node`: the ranks of my node. `rail`: the ranks with my local rank, one on every
/// node; only local ranks below the smallest node's size have such a group.
enum class NcclGroup : std::uint8_t { all, node, rail };

/// What the plans of one Communicator share. Taking much GPU memory, they are made once, and plans use them by turns.
class NcclGroups {
 public:
  /// nullptr where this rank is the group's only one, or not in one. Connected ones are kept: an error of one ends all.
  [[nodiscard]] cuda::NcclCommunicator* of(NcclGroup group) { return links_[static_cast<std::size_t>(group)].get(); }
  [[nodiscard]] bool aborted() const noexcept { return aborted_; }
  void abort() noexcept;
  /// Throws Error for an error of any of them.
  void look_for_errors();

 private:
  friend class NcclTurn;
  friend std::string connect_nccl(CommunicatorState& comm, int tag, std::span<const NcclGroup> wanted);

  /// On the thread's GPU from now on, all of them; or why not.
  [[nodiscard]] std::string take_gpu();
  /// Collective, see connect_nccl.
  void connect(CommunicatorState& comm, int tag, NcclGroup group);

  std::array<std::unique_ptr<cuda::NcclCommunicator>, 3> links_;
  std::array<bool, 3> connected_{};  // the same on every rank, in the group or not
  bool aborted_ = false;
  std::string bus_id_;             // of the GPU that all are on
  cuda::Event last_;               // what the last turn has put onto a stream
  std::uint64_t turns_given_ = 0;  // by rank 0
  std::uint64_t turns_ended_ = 0;  // on this rank
};

/// Collective. Sees to it that comm.nccl has the groups in `wanted`, connected, on the calling thread's GPU. Where a rank cannot
/// take part (no NCCL, no GPU or one that another rank uses, an error before), or plans hand GPU memory to MPI, nothing is done,
/// and the result says why, in the same words on every rank; else it is empty. Where NCCL cannot connect some ranks, in time or at
/// all, everything is aborted, and the same Error is thrown on all. Also throws Error where a rank does not come in time.
[[nodiscard]] std::string connect_nccl(CommunicatorState& comm, int tag, std::span<const NcclGroup> wanted);

}  // namespace weir::detail
