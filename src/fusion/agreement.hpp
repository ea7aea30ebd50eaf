// agreement.hpp: what ranks agree on between gradients: the end of an iteration, and how many buffers `ahead` has.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/control.hpp"
#include "communicator/asynchronous_call.hpp"
#include "fusion/exchange.hpp"

namespace weir::fusion {

/// Maxima over all ranks, and nothing else.
class Agreement final : public detail::AsynchronousCall {
 public:
  /// Messages call it by the name of the fused tensors, `fused`, and its subject, `what`.
  Agreement(std::shared_ptr<detail::CommunicatorState> communicator, std::string_view fused, std::string_view what, int tag,
            std::size_t most_words, FusionStatistics& statistics)
      : AsynchronousCall(std::move(communicator), fmt::format("{}: {}", fused, what), most_urgent, tag, fused),
        words(most_words),
        scratch_(most_words),
        statistics_(statistics) {
    run.algorithm = "agreement";
  }
  /// On the first words.
  void start(std::size_t count) {
    check_startable();
    const auto most = static_cast<std::int64_t>(count);
    launch([&] { return allreduce_control(channel(), words.data(), most, most, scratch_.data()); });
  }

  std::vector<std::uint64_t> words;

 protected:
  void completed() override { count_traffic(traffic, statistics_); }

 private:
  static constexpr int most_urgent = 1 << 30;
  std::vector<std::uint64_t> scratch_;
  FusionStatistics& statistics_;
};

}  // namespace weir::fusion
