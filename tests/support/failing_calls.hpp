// failing_calls.hpp: collective calls of virtual ranks, on one of which memory runs out in the middle: every rank must end alike.
#pragma once

#include <unistd.h>

#include <barrier>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "support/catch.hpp"
#include "support/failing_allocations.hpp"
#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"

namespace weir::test {

/// The ranks of one job, which go through the same calls in step. A rank's verdict on a call is every rank's.
class FailingCalls {
 public:
  FailingCalls(int ranks, int victim, std::int64_t nth, Failing how)
      : victim_(victim), nth_(nth), how_(how), together_(ranks), ended_(static_cast<std::size_t>(ranks)) {}

  enum class Verdict { right, no_memory, refused, wrong };

  /// On every rank: `call`, with allocations that fail on one rank. It must leave `right` in `result`, or end in WEIR_ERR_MEMORY,
  /// the same on every rank where it does: a rank that has all it needs before another breaks off is done.
  Verdict fail(int rank, const std::string& what, const std::vector<float>& result, const std::vector<float>& right,
               const std::function<void()>& call) {
    Ended& mine = ended_[static_cast<std::size_t>(rank)];
    if (rank == victim_) {
      FailingAllocations failing(nth_, how_);
      mine = end_of(call, [&] { failing.stop(); });
      failed_ = failing.failed();
    } else {
      mine = end_of(call, [] {});
    }
    compare(mine, result, right);
    return verdict(what, {WEIR_OK, WEIR_ERR_MEMORY}, true);
  }

  /// On every rank: `call`, with all the memory there is, must leave what is right or, where `may_refuse`, be refused on all.
  Verdict call(int rank, const std::string& what, const std::vector<float>& result, const std::vector<float>& right,
               bool may_refuse, const std::function<void()>& call) {
    Ended& mine = ended_[static_cast<std::size_t>(rank)];
    mine = end_of(call, [] {});
    compare(mine, result, right);
    return may_refuse && mine.status != WEIR_OK ? verdict(what, refusals, false) : verdict(what, {WEIR_OK}, false);
  }

  /// On every rank: `call` must be refused: the first time a rank hears of it, for the lack of memory.
  Verdict refused(int rank, const std::string& what, const std::function<void()>& call) {
    ended_[static_cast<std::size_t>(rank)] = end_of(call, [] {});
    return verdict(what, refusals, false);
  }

  /// Whether an allocation has failed: else there are fewer than that.
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::string failure() const { return check_.failure(); }

 private:
  inline static const std::vector<weir_status> refusals{WEIR_ERR_STATE, WEIR_ERR_MEMORY};
  struct Ended {
    weir_status status = WEIR_OK;
    std::string text;
    bool right = true;
  };

  template <class Stop>
  static Ended end_of(const std::function<void()>& call, Stop stop) {
    try {
      call();
      stop();
      return {};
    } catch (const Error& error) {
      stop();
      return {error.status(), error.what()};
    } catch (const std::exception& error) {
      stop();
      return {WEIR_OK, std::string("not one of ours: ") + error.what(), false};
    }
  }

  static void compare(Ended& ended, const std::vector<float>& result, const std::vector<float>& right) {
    if (ended.status != WEIR_OK || !ended.right || result == right) return;
    ended.right = false;
    ended.text = "a wrong result";
  }

  /// All ranks have ended in one of `allowed`; `alike`: where they have failed, with the same text, which names the victim.
  Verdict verdict(const std::string& what, const std::vector<weir_status>& allowed, bool alike) {
    together_.arrive_and_wait();
    const Ended* failure = nullptr;
    bool good = true;
    for (const Ended& ended : ended_) {
      good &= ended.right && std::find(allowed.begin(), allowed.end(), ended.status) != allowed.end();
      if (ended.status == WEIR_OK) continue;
      if (failure == nullptr || speechless(*failure)) failure = &ended;
    }
    for (const Ended& ended : ended_) {
      if (!alike || ended.status == WEIR_OK || speechless(ended)) continue;
      good &= ended.text == failure->text && ended.text.find("rank " + std::to_string(victim_)) != std::string::npos;
    }
    if (!good) {
      std::string all = what + ":";
      for (std::size_t rank = 0; rank < ended_.size(); ++rank)
        all += "\n  rank " + std::to_string(rank) + ": " + std::to_string(ended_[rank].status) + " " + ended_[rank].text;
      check_.that(false, all);
    }
    together_.arrive_and_wait();  // before anybody's next call
    if (!good) return Verdict::wrong;
    return failure == nullptr ? Verdict::right : alike ? Verdict::no_memory : Verdict::refused;
  }

  /// Without any memory left, a rank may have to say less than the others say of it.
  [[nodiscard]] bool speechless(const Ended& ended) const {
    return how_ == Failing::on && ended.status == WEIR_ERR_MEMORY && &ended == &ended_[static_cast<std::size_t>(victim_)];
  }

  int victim_;
  std::int64_t nth_;
  Failing how_;
  bool failed_ = false;  // the victim's
  std::barrier<> together_;
  std::vector<Ended> ended_;
  RankCheck check_;
};

/// A job for each allocation of `body`, in which that one fails on `victim`, until none is left. Each job is a new one, so that
/// what is allocated only once is among them.
inline void fail_every_allocation(const std::string& what, int ranks, int victim, const std::string& machine,
                                  const std::function<void(FailingCalls&, Communicator&)>& body) {
  constexpr unsigned seconds_of_a_hang = 60;
  std::signal(SIGALRM, [](int) { std::abort(); });
  for (const Failing how : {Failing::once, Failing::on}) {
    bool failed = true;
    for (std::int64_t nth = 1; failed; ++nth) {
      INFO(what << " on '" << machine << "' P " << ranks << ": allocation " << nth << (how == Failing::on ? " and all later" : "")
                << " on rank " << victim);
      FailingCalls calls(ranks, victim, nth, how);
      alarm(seconds_of_a_hang);
      run_ranks(ranks, [&](Communicator& comm) { body(calls, comm); }, {.machine = machine, .settings = {.timeout_seconds = 20, .log = LogLevel::error}});
      alarm(0);
      REQUIRE(calls.failure() == "");
      failed = calls.failed();
    }
  }
}

}  // namespace weir::test
