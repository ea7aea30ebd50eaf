#include "nccl/turn.hpp"

#include "base/error.hpp"
#include "collectives/control.hpp"

namespace weir::detail {

NcclTurn::~NcclTurn() {
  if (!done_) groups_.abort();
}

task<void> NcclTurn::begin(Channel channel) {
  const StageScope stage = channel.stage(Stage::nccl_turn);
  if (channel.rank() == 0) words_[0] = ++groups_.turns_given_;
  co_await allreduce_control(channel, words_, 1, 1, words_ + 1);
  Waiting waiting(*this);
  co_await channel.done(waiting);
  groups_.last_.hold(stream_);
}

bool NcclTurn::Waiting::reached() {
  if (turn_.groups_.aborted_) fail(WEIR_ERR_DEVICE, "NCCL was aborted after an error of another plan");
  return turn_.groups_.turns_ended_ + 1 == turn_.words_[0];
}

task<void> NcclTurn::issued(Channel channel, cuda::NcclCommunicator* link) {
  if (link != nullptr) co_await channel.done(*link);
}

task<void> NcclTurn::end(Channel channel) {
  groups_.last_.record(stream_);
  ++groups_.turns_ended_;
  event_.record(stream_);
  Done done(groups_, event_);
  co_await channel.done(done);
  done_ = true;
}

bool NcclTurn::Done::reached() {
  groups_.look_for_errors();
  return event_.reached();
}

}  // namespace weir::detail
