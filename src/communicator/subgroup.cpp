// Communicators of some ranks of another one.
//
// The ranks of the list first meet, by messages on the communicator that they have in common: making a transport may block for ever
// if lists differ or a rank stays away. Each sends a card to the lowest rank of its list, which answers all of them. Ranks meet in
// this way even if their lists differ, as long as these have the same lowest rank. One rank's list may be wrong by itself; it then
// meets those of it that exist. The lowest rank says at once that it is there, so that the others know whom they miss.
#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/keep.hpp"
#include "base/lost_rank.hpp"
#include "communicator/communicator.hpp"

namespace weir {
namespace detail {
namespace {

/// What a rank sends to the lowest one of its list.
struct Card {
  static constexpr std::size_t most_shown = 12;

  Outcome outcome;         ///< of reading its own list
  std::uint64_t list = 0;  ///< fingerprint
  std::int32_t count = 0;
  std::int32_t machine = 0;                      ///< it has CommunicatorState::machine
  std::array<std::int32_t, most_shown> ranks{};  ///< the first ones, for texts
};

struct Answer {
  Outcome outcome;
  std::int32_t machine = 0;  ///< all have it
};

/// Returns "0, 3, 1"; the first ranks, if there are many.
std::string shown(std::span<const std::int32_t> first, std::int64_t count) {
  constexpr std::int64_t most = Card::most_shown;
  std::string text;
  for (const std::int32_t rank : first.first(static_cast<std::size_t>(std::min(count, most))))
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return count <= most ? text : fmt::format("{}, ... ({} ranks)", text, count);
}

/// The meeting of the ranks of a list, with the memory of its messages.
class Meeting {
 public:
  /// `members`: the ranks of `list` that exist, this one among them, ascending, each once. `outcome`: of reading the list.
  Meeting(CommunicatorState& comm, std::span<const int> list, std::vector<int> members, const Outcome& outcome)
      : comm_(comm), transport_(*comm.transport), members_(std::move(members)) {
    Fingerprint all;
    for (const int rank : list) all.add(static_cast<std::uint64_t>(static_cast<std::int64_t>(rank)));
    mine_.outcome = outcome;
    mine_.list = all.value();
    mine_.count = static_cast<std::int32_t>(list.size());
    mine_.machine = comm.machine ? 1 : 0;
    std::copy_n(list.begin(), std::min<std::size_t>(list.size(), Card::most_shown), mine_.ranks.begin());
    cards_.reserve(members_.size());
    cards_.resize(members_.size() - 1);
  }

  /// Returns whether all have CommunicatorState::machine. If the ranks meet, throws the same AgreedError on all of them. Throws
  /// another Error if they do not: then messages may still be on their way.
  bool agree() {
    if (members_.front() == transport_.rank())
      answer_all();
    else
      ask();
    if (answer_.outcome.failed())
      fail_alike(static_cast<weir_status>(answer_.outcome.status), "subgroup: {}", answer_.outcome.text.data());
    return answer_.machine != 0;
  }

 private:
  /// On the lowest rank of the list: waits for the cards of the others, and answers.
  void answer_all() {
    const std::size_t others = members_.size() - 1;
    std::vector<Request> cards(others), notes(others), answers(others);
    for (std::size_t i = 0; i < others; ++i) {
      cards[i] = receive(cards_[i], members_[i + 1]);
      notes[i] = send(here_, members_[i + 1]);
    }
    const double timeout = comm_.engine.timeout_seconds();
    const auto finished = [](const Request& request) { return request.slot < 0; };
    const bool all_came = drive(timeout, [&] { return test(cards) + test(notes) == 2 * others; });
    std::vector<int> absent;
    for (std::size_t i = 0; i < others; ++i) {
      if (!finished(cards[i]) || !finished(notes[i])) absent.push_back(members_[i + 1]);
    }
    if (all_came) {
      decide();
    } else {
      transport_.abandon(transport_.meeting_tag());
      answer_.outcome = missed(absent);
    }
    for (std::size_t i = 0; i < others; ++i) {
      if (finished(cards[i]) && finished(notes[i])) answers[i] = send(answer_, members_[i + 1]);
    }
    const bool answered = drive(timeout / 2, [&] { return test(answers) == others; });
    if (!all_came) fail(static_cast<weir_status>(answer_.outcome.status), "subgroup: {}", answer_.outcome.text.data());
    if (!answered)
      fail(WEIR_ERR_TIMEOUT, "subgroup: rank {} has not taken the answer of rank {}", members_.back(), members_.front());
  }

  /// On the others: sends the card to the lowest rank, and waits for its answer.
  void ask() {
    const int lowest = members_.front();
    std::vector<Request> requests = {send(mine_, lowest), receive(here_, lowest)};
    const double timeout = comm_.engine.timeout_seconds();
    bool in_time = drive(timeout, [&] { return test(requests) == requests.size(); });
    if (in_time) {  // it answers by its own deadline, and began before it said that it was there
      requests = {receive(answer_, lowest)};
      in_time = drive(1.5 * timeout, [&] { return test(requests) == requests.size(); });
    }
    if (in_time) return;
    const Outcome why = missed(std::span(&lowest, 1));
    fail(static_cast<weir_status>(why.status), "subgroup: {}", why.text.data());
  }

  /// Sets the answer from all cards.
  void decide() {
    cards_.insert(cards_.begin(), mine_);
    answer_.machine = 1;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Card& card = cards_[i];
      if (card.outcome.failed())
        return answer_.outcome.set_formatted(static_cast<weir_status>(card.outcome.status), "rank {}: {}", members_[i],
                                             card.outcome.text.data());
      answer_.machine &= card.machine;
    }
    for (std::size_t i = 1; i < members_.size(); ++i) {
      if (cards_[i].list == mine_.list && cards_[i].count == mine_.count) continue;
      return answer_.outcome.set_formatted(WEIR_ERR_MISMATCH, "ranks disagree about the list: rank {} has {}; rank {} has {}",
                                           members_[0], shown(mine_.ranks, mine_.count), members_[i],
                                           shown(cards_[i].ranks, cards_[i].count));
    }
  }

  /// Returns the error of a meeting to which these ranks have not come.
  [[nodiscard]] Outcome missed(std::span<const int> absent) const {
    Outcome outcome;
    const char* const lost = lost_rank();
    outcome.set_formatted(lost != nullptr ? WEIR_ERR_TRANSPORT : WEIR_ERR_TIMEOUT, "rank {} waited {:.1f} s for rank{} {}: {}",
                          transport_.rank(), std::chrono::duration<double>(Clock::now() - begun_).count(),
                          absent.size() == 1 ? "" : "s", shown(absent, std::ssize(absent)),
                          lost != nullptr ? lost : "all ranks of the list make the subgroup, with the same list");
    return outcome;
  }

  template <class Message>
  [[nodiscard]] Request send(const Message& message, int to) {
    return transport_.send(&message, sizeof message, to, transport_.meeting_tag());
  }
  template <class Message>
  [[nodiscard]] Request receive(Message& message, int from) {
    return transport_.receive(&message, sizeof message, from, transport_.meeting_tag());
  }
  /// Returns how many of the requests are done. Their slots become -1.
  [[nodiscard]] std::size_t test(std::span<Request> requests) {
    std::size_t count = 0;
    for (Request& request : requests) {
      if (request.slot >= 0 && transport_.test(request)) request.slot = -1;
      if (request.slot < 0) ++count;
    }
    return count;
  }
  /// Drives what is in flight on the communicator until `done` returns true, for at most `seconds`. Returns whether it did.
  template <class Done>
  [[nodiscard]] bool drive(double seconds, Done done) {
    const Clock::time_point begin = Clock::now();
    while (!done()) {
      if (lost_rank() != nullptr || Clock::now() - begin > std::chrono::duration<double>(seconds)) return false;
      comm_.engine.poll_or_idle();
    }
    return true;
  }

  CommunicatorState& comm_;
  Transport& transport_;
  std::vector<int> members_;
  Card mine_;
  std::vector<Card> cards_;  // on the lowest rank: of the others
  std::int32_t here_ = 0;    // a message that says no more than that the lowest rank is there
  Answer answer_;
  Clock::time_point begun_ = Clock::now();
};

/// Returns the location of this rank, with what its node knows.
Location own_location(const Topology& topology) {
  Location here = topology.location(topology.rank());
  for (const int peer : topology.node_peers()) {  // a rank that knows the address may not be in the subgroup
    if (here.switch_address[0] == '\0') here.switch_address = topology.location(peer).switch_address;
  }
  return here;
}

}  // namespace

std::shared_ptr<CommunicatorState> make_subgroup(const std::shared_ptr<CommunicatorState>& comm, std::span<const int> ranks,
                                                 const char* refusal) {
  return comm->guarded([&] {
    const int rank = comm->transport->rank(), size = comm->transport->size();
    comm->require_whole();
    if (comm->subgroups_broken)
      fail(WEIR_ERR_STATE,
           "subgroup: rank {}: this communicator can make no subgroups any more: ranks broke off while they made one", rank);
    require(!ranks.empty(), "subgroup: the list is empty: it must have the ranks that call it, in the order of their new numbers");
    std::vector<int> members;
    std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(members), [&](int member) { return member >= 0 && member < size; });
    std::sort(members.begin(), members.end());
    const auto twice = std::adjacent_find(members.begin(), members.end());
    const Outcome own = outcome_of([&] {
      if (refusal != nullptr) fail(WEIR_ERR_ARGUMENT, "{}", refusal);
      for (const int member : ranks)
        require(member >= 0 && member < size, "the list has rank {}: the communicator has ranks 0 to {}", member, size - 1);
      require(twice == members.end(), "the list has rank {} twice: each rank becomes one rank of the subgroup",
              twice == members.end() ? 0 : *twice);
    });
    members.erase(std::unique(members.begin(), members.end()), members.end());
    if (!std::binary_search(members.begin(), members.end(), rank)) {
      if (own.failed()) fail(static_cast<weir_status>(own.status), "subgroup: rank {}: {}", rank, own.text.data());
      fail(WEIR_ERR_ARGUMENT, "subgroup: rank {} is not in its own list ({}): only the ranks of the list call it", rank,
           shown(ranks, std::ssize(ranks)));
    }
    const auto meeting = std::make_shared<Meeting>(*comm, ranks, std::move(members), own);
    bool machine_is_known = false;
    try {
      machine_is_known = meeting->agree();
    } catch (const AgreedError&) {
      throw;
    } catch (...) {
      comm->transport->abandon(comm->transport->meeting_tag());
      comm->subgroups_broken = true;
      keep_forever(meeting);  // the network may still use its memory
      if (own.failed()) fail(static_cast<weir_status>(own.status), "subgroup: rank {}: {}", rank, own.text.data());
      throw;
    }
    Settings settings = comm->settings;
    if (machine_is_known) settings.calibrate = false;
    std::shared_ptr<CommunicatorState> made =
        make_communicator(comm->transport->subgroup(ranks), own_location(comm->topology), settings);
    if (machine_is_known) made->machine = comm->machine;
    return made;
  });
}

}  // namespace detail

Communicator Communicator::subgroup(const std::vector<int>& ranks) const {
  return Communicator(detail::make_subgroup(state_, ranks));
}

}  // namespace weir
