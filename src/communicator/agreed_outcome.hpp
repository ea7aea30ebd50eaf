// agreed_outcome.hpp: in the middle of a run, all ranks learn whether any of them has failed, and throw the same.
#pragma once

#include <array>
#include <cstdint>

#include "async/channel.hpp"
#include "async/task.hpp"
#include "communicator/outcome.hpp"

namespace weir::detail {

/// Memory of its messages: it must outlive a run that breaks off.
struct AgreementWords {
  std::array<std::uint64_t, 53> words{}, scratch{};
};

/// Throws AgreedError on all ranks with what the lowest failed rank has in `mine`. Nothing else is sent where none has failed.
task<void> agree_on_outcome(Channel channel, const Outcome& mine, AgreementWords& memory);
/// Throws it where all know already that `failed` is the lowest such rank.
task<void> throw_outcome_of(Channel channel, int failed, const Outcome& mine, AgreementWords& memory);

}  // namespace weir::detail
