// failing_calls.hpp: collective calls of virtual ranks, one of which runs out of memory. Every rank must end in the same way.
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
#include "support/thinning.hpp"

namespace weir::test {

/// Virtual ranks on a synthetic machine, and the rank that runs out of memory.
struct FailingRank {
  int ranks;
  const char* description;
  int victim;
};

/// The ranks of one job, which make the same calls in step. All ranks get the same verdict on a call.
class FailingCalls {
 public:
  FailingCalls(int ranks, int victim, std::int64_t nth, Failing how)
      : victim_(victim), nth_(nth), how_(how), together_(ranks), ended_(static_cast<std::size_t>(ranks)) {}

  enum class Verdict {
    right,      ///< on every rank
    no_memory,  ///< the same WEIR_ERR_MEMORY on every rank
    split,      ///< right on ranks that had already finished, and the same WEIR_ERR_MEMORY on the others
    refused,    ///< on every rank
    wrong
  };

  /// On every rank: runs `call` with failing allocations on one rank. It must leave `right` in `result` or end in WEIR_ERR_MEMORY.
  Verdict fail(int rank, const std::string& what, const std::vector<float>& result, const std::vector<float>& right,
               const std::function<void()>& call) {
    Ended& mine = ended_[at(rank)];
    if (rank == victim_) {
      FailingAllocations failing(nth_, how_);
      mine = end_of(call, [&] { failing.stop(); });
      failed_ = failing.failed();
    } else {
      mine = end_of(call, [] {});
    }
    compare(mine, result, right);
    return verdict(what, {Verdict::right, Verdict::no_memory, Verdict::split});
  }

  /// On every rank: runs a later call, without failing allocations.
  Verdict call(int rank, const std::string& what, const std::vector<float>& result, const std::vector<float>& right,
               const std::vector<Verdict>& allowed, const std::function<void()>& call) {
    Ended& mine = ended_[at(rank)];
    mine = end_of(call, [] {});
    compare(mine, result, right);
    return verdict(what, allowed);
  }

  /// Returns whether an allocation has failed. If not, the call makes fewer allocations.
  [[nodiscard]] bool failed() const { return failed_; }
  void note(const std::string& failure) { check_.that(false, failure); }
  [[nodiscard]] std::string failure() const { return check_.failure(); }

 private:
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

  [[nodiscard]] static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  Verdict verdict(const std::string& what, const std::vector<Verdict>& allowed) {
    together_.arrive_and_wait();
    const Verdict verdict = verdict_of_ends();
    const bool good = std::find(allowed.begin(), allowed.end(), verdict) != allowed.end();
    if (!good) {
      std::string all = what + ":";
      for (std::size_t rank = 0; rank < ended_.size(); ++rank)
        all += "\n  rank " + std::to_string(rank) + ": " + std::to_string(ended_[rank].status) + " " + ended_[rank].text;
      check_.that(false, all);
    }
    together_.arrive_and_wait();  // before any rank's next call
    return good ? verdict : Verdict::wrong;
  }

  [[nodiscard]] Verdict verdict_of_ends() const {
    std::size_t right = 0, refused = 0, no_memory = 0;
    const std::string* text = nullptr;
    for (std::size_t rank = 0; rank < ended_.size(); ++rank) {
      const Ended& ended = ended_[rank];
      if (!ended.right) return Verdict::wrong;
      right += ended.status == WEIR_OK;
      refused += ended.status == WEIR_ERR_STATE;
      no_memory += ended.status == WEIR_ERR_MEMORY;
      // Without any memory left, a rank's text may be shorter than the others' texts.
      if (ended.status != WEIR_ERR_MEMORY || (how_ == Failing::on && rank == at(victim_))) continue;
      if (ended.text.find("rank " + std::to_string(victim_)) == std::string::npos) return Verdict::wrong;
      if (text != nullptr && ended.text != *text) return Verdict::wrong;
      text = &ended.text;
    }
    if (right == ended_.size()) return Verdict::right;
    if (no_memory == ended_.size()) return Verdict::no_memory;
    if (right + no_memory == ended_.size()) return Verdict::split;
    // Ranks that had already finished learn of the error only now.
    return refused + no_memory == ended_.size() ? Verdict::refused : Verdict::wrong;
  }

  int victim_;
  std::int64_t nth_;
  Failing how_;
  bool failed_ = false;  // the victim's
  std::barrier<> together_;
  std::vector<Ended> ended_;
  RankCheck check_;
};

/// Runs one job for each allocation of `body`, which fails on `victim`, until there are no more; with TEST_EVERY, only some of
/// them. Each job is new, so that one-time allocations are covered.
inline void fail_every_allocation(const std::string& what, int ranks, int victim, const std::string& machine,
                                  const std::function<void(FailingCalls&, Communicator&)>& body,
                                  const std::string& machine_file = "") {
  constexpr unsigned seconds_of_a_hang = 60;
  std::signal(SIGALRM, [](int) { std::abort(); });
  for (const Failing how : {Failing::once, Failing::on}) {
    bool failed = true;
    for (auto nth = static_cast<std::int64_t>(1 + test_offset()); failed; nth += static_cast<std::int64_t>(test_every())) {
      INFO(what << " on '" << machine << "' P " << ranks << ": allocation " << nth << (how == Failing::on ? " and all later" : "")
                << " on rank " << victim);
      FailingCalls calls(ranks, victim, nth, how);
      alarm(seconds_of_a_hang);
      run_ranks(ranks, [&](Communicator& comm) { body(calls, comm); },
                {.machine = machine, .settings = {.timeout_seconds = 20, .log = LogLevel::error, .machine = machine_file}});
      alarm(0);
      REQUIRE(calls.failure() == "");
      failed = calls.failed();
    }
  }
}

}  // namespace weir::test
