// same_errors.hpp: wrong calls must end in the same error on every rank.
#pragma once

#include <string>
#include <vector>
#include <weir/weir.hpp>

#include "support/inproc_ranks.hpp"
#include "support/rank_check.hpp"

namespace weir::test {

/// Collects the errors of each rank's calls. One object serves all ranks.
class SameErrors {
 public:
  explicit SameErrors(int ranks) : texts_(static_cast<std::size_t>(ranks)) {}

  /// On rank `rank`: checks that `call` throws Error with this status and a text that contains `part`.
  template <class Call>
  void expect(int rank, weir_status status, const std::string& part, Call call) {
    std::string text = "no error";
    try {
      call();
    } catch (const Error& error) {
      text = error.what();
      check_.that(error.status() == status, "status " + std::to_string(error.status()) + " with text: " + text);
    }
    check_.that(text.find(part) != std::string::npos, "rank " + std::to_string(rank) + ": '" + text + "' lacks '" + part + "'");
    texts_[static_cast<std::size_t>(rank)].push_back(text);
  }

  /// Returns the first thing that was wrong, or an empty text. Call it after all ranks have ended.
  [[nodiscard]] std::string failure() {
    for (const auto& texts : texts_) check_.that(texts == texts_[0], "different texts on different ranks");
    return check_.failure();
  }
  [[nodiscard]] RankCheck& check() { return check_; }

 private:
  RankCheck check_;
  std::vector<std::vector<std::string>> texts_;
};

/// Returns what is wrong if `body`, run on every rank, does not throw the same expected Error on all.
inline std::string unlike_errors(int ranks, weir_status status, const std::string& part,
                                 const std::function<void(Communicator&)>& body, const RankOptions& options = {}) {
  SameErrors errors(ranks);
  run_ranks(
      ranks, [&](Communicator& comm) { errors.expect(comm.rank(), status, part, [&] { body(comm); }); }, options);
  return errors.failure();
}

}  // namespace weir::test
