#include "checkpoint/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "checkpoint/hdf5_file.hpp"
#include "checkpoint/signals.hpp"
#include "checkpoint/whole_file.hpp"
#include "collectives/control.hpp"
#include "collectives/switch_groups.hpp"
#include "communicator/config_card.hpp"

namespace weir::detail {
namespace {

constexpr int save_priority = -2000000;  // after everything that a step waits for
constexpr std::size_t longest_name = 128;

void check_name(std::string_view name, std::string_view what) {
  const auto fits = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.'; };
  require(!name.empty() && name.size() <= longest_name && std::all_of(name.begin(), name.end(), fits) && name.front() != '.',
          "{} is called '{:.200}': a name has 1 to {} letters, digits, '_', '-' and '.', and does not begin with '.'", what, name,
          longest_name);
}

}  // namespace

CheckpointState::CheckpointState(std::shared_ptr<CommunicatorState> communicator, CheckpointConfig configuration, Lease lease)
    : comm(std::move(communicator)),
      config(std::move(configuration)),
      lease_(std::move(lease)),
      folder_(std::filesystem::absolute(config.folder).string()),
      card_bytes_(static_cast<std::int64_t>((1 + 2 * ranks()) * sizeof(Card))),
      save_(comm, config.name + ": save", save_priority, lease_.tag(0)),
      restore_(comm, config.name + ": restore", 0, lease_.tag(1)) {
  statistics.step = -1;
}

void CheckpointState::add(checkpoint::AddedSubject subject) {
  check_name(subject.name, checkpoint::word_of(subject.kind));
  for (const checkpoint::AddedSubject& other : subjects_) {
    require(other.kind != subject.kind || other.name != subject.name, "checkpoint '{}' has {} already: names must differ",
            config.name, subject.words());
  }
  if (!save_.waited_for()) fail(WEIR_ERR_BUSY, "checkpoint '{}' is being saved: wait before something is added", config.name);
  subjects_.push_back(std::move(subject));
}

void CheckpointState::set(std::string_view name, checkpoint::Value value) {
  check_name(name, "a value");
  values_[std::string(name)] = std::move(value);
}

const checkpoint::Value& CheckpointState::value(std::string_view name, std::size_t type) const {
  constexpr std::array words = {"integer", "real number", "text"};
  const auto found = values_.find(std::string(name));
  if (found != values_.end() && found->second.index() == type) return found->second;
  std::string known;
  for (const auto& [other, value] : values_) {
    if (value.index() == type) known += (known.empty() ? "" : ", ") + other;
  }
  fail(WEIR_ERR_ARGUMENT, "checkpoint '{}' has no {} '{}'; {}", config.name, words[type], name,
       known.empty() ? "there is none of this type" : "there are: " + known);
}

/// Checks the newest readable file only. A restore checks the one that it reads.
void CheckpointState::check_run() const {
  if (config.run.empty()) return;
  std::vector<std::int64_t> steps = folder_.steps();
  if (const auto newest = folder_.newest()) steps.push_back(*newest);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    checkpoint::Index index;
    try {
      index = checkpoint::read_whole(folder_.file_of(*step));
    } catch (const Error& error) {
      log(comm->settings.log, LogLevel::warn, "checkpoint '{}': {}", config.name, error.what());
      continue;
    }
    require(index.run.empty() || index.run == config.run,
            "folder {} belongs to another run: {} is of '{}', this one is '{}'; give another folder", config.folder,
            folder_.file_of(*step), index.run, config.run);
    return;
  }
}

std::vector<std::int64_t> CheckpointState::nodes() const {
  std::vector<std::int64_t> nodes(ranks());
  for (std::size_t rank = 0; rank < nodes.size(); ++rank) nodes[rank] = comm->topology.node_of(static_cast<int>(rank));
  return nodes;
}

std::vector<std::int64_t> CheckpointState::switches() const {
  std::vector<std::int64_t> switches(ranks(), -1);
  if (switch_group_sizes(comm->topology).empty()) return switches;
  for (std::size_t rank = 0; rank < switches.size(); ++rank) switches[rank] = comm->topology.switch_of(static_cast<int>(rank));
  return switches;
}

std::span<const CheckpointState::Card> CheckpointState::cards() const {
  return {reinterpret_cast<const Card*>(card_bytes_.data()) + 1, ranks()};
}

task<void> CheckpointState::share_cards(Channel channel) {
  static_assert(std::is_trivially_copyable_v<Card>);
  auto* const cards = reinterpret_cast<Card*>(card_bytes_.data());
  *cards = card_;
  co_await allgather_control(channel, card_bytes_.data(), sizeof(Card), card_bytes_.data() + sizeof(Card),
                             card_bytes_.data() + (1 + ranks()) * sizeof(Card));
}

task<void> CheckpointState::agree(Channel channel, Outcome outcome) {
  card_.outcome = outcome;
  co_await share_cards(channel);
  const std::span<const Card> all = cards();
  const auto failed = std::find_if(all.begin(), all.end(), [](const Card& card) { return card.outcome.failed(); });
  if (failed == all.end()) co_return;
  throw AgreedError(static_cast<weir_status>(failed->outcome.status),
                    fmt::format("checkpoint '{}', rank {}: {}", config.name, failed - all.begin(), failed->outcome.text.data()));
}

bool CheckpointState::stop_requested() {
  const std::span<const std::int32_t> all =
      comm->share("asking for a stop", std::int32_t{checkpoint::caught_signals() > 0 ? 1 : 0});
  return std::any_of(all.begin(), all.end(), [](std::int32_t stop) { return stop != 0; });
}

std::shared_ptr<CheckpointState> make_checkpoint(std::shared_ptr<CommunicatorState> comm, const CheckpointConfig& config) {
  ConfigCard card;
  card.outcome = outcome_of([&] {
    require(!config.folder.empty(), "folder is empty: it must name where files go, for example checkpoints");
    check_fields(config);
    checkpoint::require_hdf5();
    set_fields(card, config);
  });
  Lease lease = open_agreed(*comm, card, {"checkpoint", card_fields<CheckpointConfig>()}, config.name);
  std::shared_ptr<CheckpointState> state;
  std::string folder = config.folder, run = config.run;
  comm->broadcast("telling a checkpoint's folder", folder);
  comm->broadcast("telling a checkpoint's run", run);
  comm->agree("making a checkpoint", "checkpoint", config.name, [&] {
    if (folder != config.folder)
      fail(WEIR_ERR_MISMATCH, "folder is {} here and {} on rank 0: it must be the same", config.folder, folder);
    if (run != config.run) fail(WEIR_ERR_MISMATCH, "run is '{}' here and '{}' on rank 0: it must be the same", config.run, run);
    state = std::make_shared<CheckpointState>(comm, config, std::move(lease));
    if (comm->topology.rank() != 0) return;
    state->folder().prepare();
    state->check_run();
  });
  return state;
}

}  // namespace weir::detail
