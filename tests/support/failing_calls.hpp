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

  /// On every rank: `call`, with allocations that fail on one rank. What it gives must be `right` on every rank, or it must end in
  /// the same WEIR_ERR_MEMORY on all.
  Verdict fail(int rank, const std::string& what, const std::vector<float>& right,
               const std::function<std::vector<float>()>& call) {
    Ended& mine = ended_[static_cast<std::size_t>(rank)];
    if (rank == victim_) {
      FailingAllocations failing(nth_, how_);
      mine = end_of(right, call, [&] { failing.stop(); });
      failed_ = failing.failed();
    } else {
      mine = end_of(right, call, [] {});
    }
    return verdict(what, {WEIR_OK, WEIR_ERR_MEMORY});
  }

  /// On every rank: `call`, with all the memory there is, must give what is right or, where `may_refuse`, be refused on all.
  Verdict call(int rank, const std::string& what, const std::vector<float>& right, bool may_refuse,
               const std::function<std::vector<float>()>& call) {
    ended_[static_cast<std::size_t>(rank)] = end_of(right, call, [] {});
    return verdict(what, may_refuse ? std::vector{WEIR_OK, WEIR_ERR_STATE} : std::vector{WEIR_OK});
  }

  /// On every rank: `call` must be refused.
  Verdict refused(int rank, const std::string& what, const std::function<std::vector<float>()>& call) {
    ended_[static_cast<std::size_t>(rank)] = end_of({}, call, [] {});
    return verdict(what, {WEIR_ERR_STATE});
  }

  /// Whether an allocation has failed: else there are fewer than that.
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] std::string failure() const { return check_.failure(); }

 private:
  struct Ended {
    weir_status status = WEIR_OK;
    std::string text;
    bool right = true;
  };

  template <class Stop>
  static Ended end_of(const std::vector<float>& right, const std::function<std::vector<float>()>& call, Stop stop) {
    try {
      const std::vector<float> result = call();
      stop();
      return {WEIR_OK, result == right ? "" : "a wrong result", result == right};
    } catch (const Error& error) {
      stop();
      return {error.status(), error.what()};
    } catch (const std::exception& error) {
      stop();
      return {WEIR_OK, std::string("not one of ours: ") + error.what(), false};
    }
  }

  Verdict verdict(const std::string& what, const std::vector<weir_status>& allowed) {
    together_.arrive_and_wait();
    const Ended& first = ended_[0];
    bool good = std::find(allowed.begin(), allowed.end(), first.status) != allowed.end();
    if (first.status == WEIR_ERR_MEMORY) good &= first.text.find("rank " + std::to_string(victim_)) != std::string::npos;
    for (const Ended& ended : ended_) good &= ended.right && ended.status == first.status && ended.text == first.text;
    if (!good) {
      std::string all = what + ":";
      for (std::size_t rank = 0; rank < ended_.size(); ++rank)
        all += "\n  rank " + std::to_string(rank) + ": " + std::to_string(ended_[rank].status) + " " + ended_[rank].text;
      check_.that(false, all);
    }
    const weir_status status = first.status;
    together_.arrive_and_wait();  // before anybody's next call
    if (!good) return Verdict::wrong;
    return status == WEIR_OK ? Verdict::right : status == WEIR_ERR_MEMORY ? Verdict::no_memory : Verdict::refused;
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
      run_ranks(ranks, [&](Communicator& comm) { body(calls, comm); }, {.machine = machine, .settings = {.timeout_seconds = 20}});
      alarm(0);
      REQUIRE(calls.failure() == "");
      failed = calls.failed();
    }
  }
}

}  // namespace weir::test
