// nccl_groups.hpp: NCCL among the ranks of a Communicator: who can take part, a NCCL communicator for each group of the topology,
// and the order in which plans use these.
//
// Each group connects by an id of its own, made by its first rank. Splitting one communicator of all ranks would make every plan
// wait for ranks that it has nothing to do with, and needs one of all ranks where only nodes exchange anything.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "cuda/nccl.hpp"
#include "cuda/runtime.hpp"
#include "plan/communicator.hpp"

namespace weir::detail {

/// Of all ranks; of my node; of the ranks with my local rank, on every node, for those below the smallest node's size.
enum class NcclGroup : std::uint8_t { all, node, owners };

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

/// One run's turn with NCCL. NCCL wants the operations of all communicators on a GPU in the same order on every rank, issued and
/// done, while plans are started in any order: rank 0 gives turns to the runs that all ranks have come to, and a turn's stream
/// waits for the one before, also on ranks that have nothing to tell NCCL. To be kept until the run's operations are done;
/// destroyed before that, by an error or a timeout, it aborts all communicators, so that no stream hangs.
class NcclTurn {
 public:
  /// For operations on `stream`. `event` is nobody else's meanwhile.
  NcclTurn(NcclGroups& groups, cuda::Event& event, void* stream) : groups_(groups), event_(event), stream_(stream) {}
  NcclTurn(const NcclTurn&) = delete;
  NcclTurn& operator=(const NcclTurn&) = delete;
  ~NcclTurn();

  /// Collective, once this run has heard of all other ranks' and none of them can turn back. Until it is this run's turn.
  task<void> begin(Channel channel);
  /// Until NCCL has put onto the stream what `link` was told; nothing happens for nullptr.
  task<void> issued(Channel channel, cuda::NcclCommunicator* link);
  /// All that this run has for NCCL is issued: others may go on. Then, until what is on the stream is done.
  task<void> end(Channel channel);

 private:
  /// No turn before this one is under way any more.
  class Waiting final : public Happening {
   public:
    explicit Waiting(const NcclTurn& turn) : turn_(turn) {}
    [[nodiscard]] bool happened() override;

   private:
    const NcclTurn& turn_;
  };
  class Done final : public Happening {
   public:
    Done(NcclGroups& groups, cuda::Event& event) : groups_(groups), event_(event) {}
    [[nodiscard]] bool happened() override;

   private:
    NcclGroups& groups_;
    cuda::Event& event_;
  };

  NcclGroups& groups_;
  cuda::Event& event_;
  void* stream_;
  std::uint64_t words_[2] = {};  // the number of the turn
  bool done_ = false;
};

}  // namespace weir::detail
