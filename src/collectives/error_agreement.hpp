// error_agreement.hpp: what ranks agree on before a run that no rank may begin with a wrong input.
#pragma once

#include "async/channel.hpp"
#include "async/task.hpp"
#include "base/error_report.hpp"
#include "collectives/control.hpp"

namespace weir {

/// An object outlives its runs.
class ErrorAgreement {
 public:
  /// Returns the largest error of any rank.
  task<ErrorReport> run(Channel channel, ErrorReport mine) {
    const StageScope stage = channel.stage(Stage::agree);
    words_[0] = mine.word();
    co_await allreduce_control(channel, words_, 1, 1, words_ + 1);
    co_return ErrorReport::of_word(words_[0]);
  }

 private:
  std::uint64_t words_[2] = {};
};

}  // namespace weir
