#include "embedding/fuzz_table_scripts.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace weir::test {
namespace {

using Kind = TableEvent::Kind;
using Wrong = TableEvent::Wrong;
using Order = std::vector<std::size_t>;  ///< of events on one rank
using Script = std::vector<TableAction>;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

/// For each event and rank, the rank's last valid prefetch before its call, or -1.
class Announced {
 public:
  Announced(const TableCase& c, const std::vector<Order>& orders)
      : events_(c.events), of_(c.events.size(), Serials(orders.size(), -1)) {
    for (std::size_t rank = 0; rank < orders.size(); ++rank) {
      int next = -1;
      for (const std::size_t e : orders[rank]) {
        const TableEvent& event = events_[e];
        const bool mistaken = event.wrong != Wrong::nothing && event.wrong_rank == static_cast<int>(rank);
        if (event.kind == Kind::update) of_[e][rank] = next;
        if (event.kind == Kind::lookup && next >= 0 && events_[static_cast<std::size_t>(next)].ids[rank] == event.ids[rank])
          of_[e][rank] = next;
        if (event.kind == Kind::lookup || event.kind == Kind::remake) next = -1;
        if (event.kind == Kind::prefetch) next = mistaken ? -1 : static_cast<int>(e);
      }
    }
  }

  [[nodiscard]] int of(std::size_t event, std::size_t rank) const { return of_[event][rank]; }
  /// Returns the prefetch that is the last one on all ranks and has no mistake, or null.
  [[nodiscard]] const TableEvent* agreed(std::size_t event) const {
    const Serials& serials = of_[event];
    const bool same = std::all_of(serials.begin(), serials.end(), [&](int serial) { return serial == serials[0]; });
    if (!same || serials[0] < 0) return nullptr;
    const TableEvent& prefetch = events_[static_cast<std::size_t>(serials[0])];
    return prefetch.wrong == Wrong::nothing ? &prefetch : nullptr;
  }

 private:
  using Serials = std::vector<int>;
  const std::vector<TableEvent>& events_;
  std::vector<Serials> of_;
};

std::set<std::int64_t> distinct(const std::vector<std::int64_t>& ids) { return {ids.begin(), ids.end()}; }

void count(TableCase& c, const Announced& announced) {
  const bool splits = c.config.exchange != "dense_allreduce";
  for (std::size_t e = 0; e < c.events.size(); ++e) {
    TableEvent& event = c.events[e];
    if (event.kind != Kind::lookup && event.kind != Kind::update) continue;
    const TableEvent* const next = announced.agreed(e);
    std::set<std::int64_t> needed;
    if (next != nullptr) {
      for (const auto& ids : next->ids) needed.insert(ids.begin(), ids.end());
    }
    for (const auto& ids : event.ids) {
      const std::set<std::int64_t> rows = distinct(ids);
      TableEvent::Counts counts{static_cast<std::int64_t>(ids.size()), static_cast<std::int64_t>(rows.size()), 0, next != nullptr};
      const bool all_prior = next == nullptr || !splits;
      counts.prior = std::count_if(rows.begin(), rows.end(), [&](std::int64_t id) { return all_prior || needed.count(id) > 0; });
      event.counts.push_back(counts);
    }
  }
}

/// Swaps prefetches with their neighbours.
Order own_order(Dice& dice, const TableCase& c, int rounds) {
  Order order(c.events.size());
  for (std::size_t e = 0; e < order.size(); ++e) order[e] = e;
  for (; rounds > 0; --rounds) {
    for (std::size_t i = 1; i < order.size(); ++i) {
      const Kind a = c.events[order[i - 1]].kind, b = c.events[order[i]].kind;
      const bool may = (a == Kind::prefetch) != (b == Kind::prefetch) && a != Kind::remake && b != Kind::remake;
      if (may && dice.chance(30)) std::swap(order[i - 1], order[i]);
    }
  }
  return order;
}

/// Makes one rank's script: its events with waits between them.
class ScriptWriter {
 public:
  ScriptWriter(Dice& dice, const TableCase& c) : dice_(dice), case_(c) {}

  [[nodiscard]] Script write(const Order& order) {
    for (const std::size_t e : order) {
      const Kind kind = case_.events[e].kind;
      prepare(kind);
      script_.push_back({TableAction::Kind::start, e});
      if (kind == Kind::lookup) lookup_ = e;
      if (kind == Kind::prefetch) prefetch_ = e;
      if (kind == Kind::update) update_ = e;
      dawdle();
    }
    wait(lookup_);
    return script_;
  }

 private:
  /// Adds the waits that must come before a call of this kind.
  void prepare(Kind kind) {
    const bool finishes_update = kind == Kind::update || kind == Kind::export_rows || kind == Kind::import_rows;
    if (kind == Kind::remake) {  // destroyed with all of it in flight
      lookup_ = prefetch_ = update_ = {};
      return;
    }
    if (finishes_update || kind == Kind::lookup) wait(lookup_);
    if (finishes_update && (failed(update_) || dice_.chance(30))) wait(update_);
    if (kind == Kind::update) update_ = {};
    if (kind == Kind::prefetch && (failed(prefetch_) || dice_.chance(30))) wait(prefetch_);
  }
  void dawdle() {
    if (dice_.chance(50)) wait(lookup_);
    if (dice_.chance(15)) wait(prefetch_);
    if (dice_.chance(15)) wait(update_);
    if (dice_.chance(10)) script_.push_back({TableAction::Kind::pause});
    for (const auto& pending : {lookup_, prefetch_, update_}) {
      if (pending && !failed(pending) && dice_.chance(10)) script_.push_back({TableAction::Kind::test, *pending});
    }
  }
  void wait(std::optional<std::size_t>& pending) {
    if (pending) script_.push_back({TableAction::Kind::wait, *pending});
    pending = {};
  }
  [[nodiscard]] bool failed(const std::optional<std::size_t>& pending) const {
    return pending && case_.events[*pending].wrong != Wrong::nothing;
  }

  Dice& dice_;
  const TableCase& case_;
  Script script_;
  std::optional<std::size_t> lookup_, prefetch_, update_;
};

/// Runs the scripts of all ranks as far as possible; ranks wait for each other.
class Rehearsal {
 public:
  Rehearsal(const TableCase& c, const std::vector<Script>& scripts, const Announced& announced)
      : case_(c), scripts_(scripts), announced_(announced), players_(scripts.size()), started_(c.events.size(), 0) {}

  /// Returns whether all ranks reach the end.
  [[nodiscard]] bool ends() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < players_.size(); ++rank) {
        while (step(rank)) moved = true;
      }
    }
    for (std::size_t rank = 0; rank < players_.size(); ++rank) {
      if (players_[rank].next < scripts_[rank].size()) return false;
    }
    return true;
  }

 private:
  struct Player {
    std::size_t next = 0;
    bool entered = false;  ///< whether the rank is in the next blocking call
    std::optional<std::size_t> prefetch, update, lookup;
  };

  bool step(std::size_t rank) {
    Player& player = players_[rank];
    if (player.next == scripts_[rank].size()) return false;
    const TableAction action = scripts_[rank][player.next];
    const bool passed = action.kind == TableAction::Kind::start ? starts(player, action.event)
                                                                : action.kind != TableAction::Kind::wait || ended(action.event);
    if (passed) ++player.next;
    return passed;
  }

  bool starts(Player& player, std::size_t e) {
    const Kind kind = case_.events[e].kind;
    const bool blocks = kind == Kind::export_rows || kind == Kind::import_rows || kind == Kind::remake;
    if (!player.entered) {
      if (kind == Kind::prefetch && !ended(player.prefetch)) return false;
      if ((kind == Kind::update || blocks) && !ended(player.update)) return false;
      if (kind == Kind::remake && (!ended(player.prefetch) || !ended(player.lookup))) return false;
      ++started_[e];
    }
    player.entered = blocks && !ended(e);
    if (player.entered) return false;
    if (kind == Kind::prefetch) player.prefetch = e;
    if (kind == Kind::update) player.update = e;
    if (kind == Kind::lookup) player.lookup = e;
    return true;
  }

  [[nodiscard]] bool ended(const std::optional<std::size_t>& e) const { return !e || ended(*e); }
  [[nodiscard]] bool ended(std::size_t e) const {
    if (started_[e] < case_.ranks) return false;
    if (case_.events[e].kind != Kind::lookup) return true;
    for (std::size_t rank = 0; rank < players_.size(); ++rank) {
      const int prefetch = announced_.of(e, rank);
      if (prefetch >= 0 && !ended(static_cast<std::size_t>(prefetch))) return false;
    }
    return true;
  }

  const TableCase& case_;
  const std::vector<Script>& scripts_;
  const Announced& announced_;
  std::vector<Player> players_;
  std::vector<int> started_;  // ranks that have started each event
};

bool try_scripts(Dice& dice, TableCase& c, int rounds) {
  std::vector<Order> orders;
  c.scripts.clear();
  for (int rank = 0; rank < c.ranks; ++rank) {
    orders.push_back(own_order(dice, c, rounds));
    c.scripts.push_back(ScriptWriter(dice, c).write(orders.back()));
  }
  const Announced announced(c, orders);
  if (!Rehearsal(c, c.scripts, announced).ends()) return false;
  count(c, announced);
  return true;
}

const char* name_of(Kind kind) {
  constexpr const char* names[] = {"lookup", "prefetch", "update", "rate", "export", "import", "move", "remake"};
  return names[static_cast<int>(kind)];
}

}  // namespace

void write_scripts(Dice& dice, TableCase& c) {
  for (int tries = 0; tries < 5; ++tries) {
    if (try_scripts(dice, c, dice.small(0, 3))) return;
  }
  if (!try_scripts(dice, c, 0)) throw std::logic_error("ranks that make all calls in one order wait for ever: " + c.program());
}

std::string TableCase::program() const {
  constexpr const char* names[] = {"", "wait ", "test ", "pause"};
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) {
    text += "rank " + std::to_string(rank) + ":";
    for (const TableAction& action : scripts[at(rank)]) {
      text += std::string(" ") + names[static_cast<int>(action.kind)];
      if (action.kind == TableAction::Kind::pause) continue;
      const TableEvent& event = events[action.event];
      text += name_of(event.kind) + std::to_string(action.event) + (event.wrong != Wrong::nothing ? "!" : "");
    }
    text += '\n';
  }
  return text;
}

}  // namespace weir::test
