// turn.hpp: the order in which plans use NCCL.
#pragma once

#include <cstdint>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "nccl/groups.hpp"

namespace weir::detail {

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
  class Waiting final : public Completion {
   public:
    explicit Waiting(const NcclTurn& turn) : turn_(turn) {}
    [[nodiscard]] bool reached() override;

   private:
    const NcclTurn& turn_;
  };
  class Done final : public Completion {
   public:
    Done(NcclGroups& groups, cuda::Event& event) : groups_(groups), event_(event) {}
    [[nodiscard]] bool reached() override;

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
