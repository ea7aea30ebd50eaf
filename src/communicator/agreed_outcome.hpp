// agreed_outcome.hpp: in the middle of a run, all ranks learn whether any of them has failed, and throw the same error.
#pragma once

#include <array>
#include <cstdint>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "communicator/outcome.hpp"

namespace weir::detail {

/// The memory of the agreement's messages. It must outlive a run that breaks off.
struct AgreementWords {
  std::array<std::uint64_t, 53> words{}, scratch{};
};

/// Throws AgreedError on all ranks with the error in `mine` of the lowest failed rank. Sends nothing else if no rank has failed.
task<void> agree_on_outcome(Channel channel, const Outcome& mine, AgreementWords& memory);
/// Throws the same error, if all ranks know already that `failed` is the lowest failed rank.
task<void> throw_outcome_of(Channel channel, int failed, const Outcome& mine, AgreementWords& memory);

}  // namespace weir::detail
