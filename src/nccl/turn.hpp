// turn.hpp: the order in which plans use NCCL.
#pragma once

#include <cstdint>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "nccl/groups.hpp"

namespace weir::detail {

/// One run's turn with NCCL. NCCL needs the operations of all communicators on a GPU in the same order on every rank, both issued
/// and done, while plans are started in any order. So rank 0 gives turns to the runs that all ranks have reached, and a turn's
/// stream waits for the turn before, also on ranks that issue nothing to NCCL. Keep it until the run's operations are done. If it
/// is destroyed before that, by an error or a timeout, it aborts all communicators, so that no stream hangs.
class NcclTurn {
 public:
  /// For operations on `stream`. No other object uses `event` meanwhile.
  NcclTurn(NcclGroups& groups, cuda::Event& event, void* stream) : groups_(groups), event_(event), stream_(stream) {}
  NcclTurn(const NcclTurn&) = delete;
  NcclTurn& operator=(const NcclTurn&) = delete;
  ~NcclTurn();

  /// Waits until it is this run's turn. Collective: call it once all ranks have reached this run and none of them can give it up.
  task<void> begin(Channel channel);
  /// Waits until NCCL has put the operations issued to `link` onto the stream; does nothing for nullptr.
  task<void> issued(Channel channel, cuda::NcclCommunicator* link);
  /// Ends the turn, once all of this run's operations are issued, and lets the next run begin. Then waits until the stream's work
  /// is done.
  task<void> end(Channel channel);

 private:
  /// Is reached when every turn before this one has ended.
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
