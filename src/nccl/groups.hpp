// groups.hpp: NCCL among the ranks of a Communicator: which ranks can take part, and a NCCL communicator for each group of the
// topology.
//
// Each group connects by an id of its own, made by its first rank. Splitting one communicator of all ranks would make every plan
// wait for ranks that it does not exchange with, and would need that communicator even if only ranks of a node exchange.
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

/// Which ranks form the group. `all`: all ranks. `node`: the ranks of this rank's node. `rail`: the ranks with this rank's local
/// rank, one on every node; only local ranks below the smallest node's size have such a group.
enum class NcclGroup : std::uint8_t { all, node, rail };

/// The NCCL communicators of one Communicator. They take much GPU memory, so they are made once, and plans use them in turns.
class NcclGroups {
 public:
  /// Returns the communicator of a connected group; nullptr if this rank is alone in the group, or not in it. They are kept: an
  /// error of one aborts all.
  [[nodiscard]] cuda::NcclCommunicator* of(NcclGroup group) { return links_[static_cast<std::size_t>(group)].get(); }
  [[nodiscard]] bool aborted() const noexcept { return aborted_; }
  void abort() noexcept;
  /// Throws Error if any of them has an error.
  void look_for_errors();

 private:
  friend class NcclTurn;
  friend std::string connect_nccl(CommunicatorState& comm, int tag, std::span<const NcclGroup> wanted);

  /// Binds all of them to the thread's GPU from now on, or returns why not.
  [[nodiscard]] std::string take_gpu();
  /// Connects a group. Collective, see connect_nccl().
  void connect(CommunicatorState& comm, int tag, NcclGroup group);

  std::array<std::unique_ptr<cuda::NcclCommunicator>, 3> links_;
  std::array<bool, 3> connected_{};  // the same on every rank, whether it is in the group or not
  bool aborted_ = false;
  std::string bus_id_;             // of the GPU that all of them use
  cuda::Event last_;               // after what the last turn has put onto a stream
  std::uint64_t turns_given_ = 0;  // by rank 0
  std::uint64_t turns_ended_ = 0;  // on this rank
};

/// Makes sure that comm.nccl has the groups in `wanted`, connected, on the calling thread's GPU. Collective. Does nothing if a rank
/// cannot take part (no NCCL, no GPU or one that another rank uses, an error before), or if plans hand GPU memory to MPI: then
/// returns why, with the same text on every rank; otherwise an empty text. If NCCL cannot connect some ranks, in time or at all,
/// aborts everything and throws the same Error on all ranks. Also throws Error if a rank does not call it in time.
[[nodiscard]] std::string connect_nccl(CommunicatorState& comm, int tag, std::span<const NcclGroup> wanted);

}  // namespace weir::detail
