#include "communicator/agreed_outcome.hpp"

#include <cstring>

#include "collectives/control.hpp"

namespace weir::detail {

task<void> agree_on_outcome(Channel channel, const Outcome& mine, AgreementWords& memory) {
  const StageScope stage = channel.stage(Stage::agree);
  // The lowest failed rank has the largest word.
  const auto ranks = static_cast<std::uint64_t>(channel.size()), rank = static_cast<std::uint64_t>(channel.rank());
  memory.words[0] = mine.failed() ? ranks - rank : 0;
  co_await allreduce_control(channel, memory.words.data(), 1, 1, memory.scratch.data());
  if (memory.words[0] != 0) co_await throw_outcome_of(channel, static_cast<int>(ranks - memory.words[0]), mine, memory);
}

task<void> throw_outcome_of(Channel channel, int failed, const Outcome& mine, AgreementWords& memory) {
  const StageScope stage = channel.stage(Stage::agree);
  auto& words = memory.words;
  static_assert(sizeof words >= sizeof words[0] + sizeof mine.text);
  words = {};
  if (channel.rank() == failed) {
    words[0] = static_cast<std::uint64_t>(static_cast<std::uint32_t>(mine.status));
    std::memcpy(&words[1], mine.text.data(), sizeof mine.text);
  }
  const auto count = static_cast<std::int64_t>(words.size());
  co_await allreduce_control(channel, words.data(), count, count, memory.scratch.data());
  throw AgreedError(Error(static_cast<weir_status>(static_cast<std::int32_t>(words[0])), reinterpret_cast<const char*>(&words[1])));
}

}  // namespace weir::detail
