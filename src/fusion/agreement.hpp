// agreement.hpp: agreement of ranks between gradients, on the end of an iteration and on the number of buffers of `ahead`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "collectives/control.hpp"
#include "communicator/asynchronous_call.hpp"
#include "fusion/exchange.hpp"

namespace weir::fusion {

/// Computes maxima over all ranks, and nothing else.
class Agreement final : public detail::AsynchronousCall {
 public:
  /// `fused`, the name of the fused tensors, and `what`, the subject, identify it in messages.
  Agreement(std::shared_ptr<detail::CommunicatorState> communicator, std::string_view fused, std::string_view what, int tag,
            std::size_t most_words, FusionStatistics& statistics)
      : AsynchronousCall(std::move(communicator), fmt::format("{}: {}", fused, what), most_urgent, tag, fused),
        words(most_words),
        scratch_(most_words),
        statistics_(statistics) {
    run.algorithm = "agreement";
  }
  /// Starts the agreement on the first `count` words.
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
