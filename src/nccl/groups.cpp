#include "nccl/groups.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/keep.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"

namespace weir::detail {
namespace {

/// What a rank sends to all others before any of them connects.
struct Card {
  std::int32_t version = 0;
  std::array<char, 16> bus_id{};
  std::array<char, 236> why_not{};  ///< empty: this rank can take part
};

template <std::size_t size>
void store(std::array<char, size>& field, const std::string& text) {
  text.copy(field.data(), size - 1);
}

std::string reason_of_this_rank() { return cuda::why_unusable().empty() ? cuda::why_no_nccl() : cuda::why_unusable(); }

/// Returns why these ranks cannot work together; empty if they can.
std::string find_obstacle(const Topology& topology, std::span<const Card> cards) {
  std::map<std::pair<int, std::string>, int> ranks_by_gpu;
  for (int rank = 0; rank < topology.size(); ++rank) {
    const Card& card = cards[static_cast<std::size_t>(rank)];
    if (card.why_not[0] != '\0') return fmt::format("rank {}: {}", rank, card.why_not.data());
    if (card.version != cards[0].version)
      return fmt::format("rank {} has NCCL {} and rank 0 {}: let all have the same", rank, cuda::nccl_version_text(card.version),
                         cuda::nccl_version_text(cards[0].version));
    const auto [place, first] = ranks_by_gpu.try_emplace({topology.node_of(rank), card.bus_id.data()}, rank);
    if (!first)
      return fmt::format("ranks {} and {} share the GPU at {}, which NCCL does not allow: give each a GPU of its own",
                         place->second, rank, card.bus_id.data());
  }
  return {};
}

/// An NCCL id, or the error of making it.
struct IdCard {
  cuda::NcclId id{};
  std::array<char, 256> error{};
};

IdCard make_id_card(bool first) {
  IdCard card;
  if (!first) return card;
  try {
    card.id = cuda::make_nccl_id();
  } catch (const Error& error) {
    store(card.error, error.what());
  }
  return card;
}

/// How far a rank has come in joining a group. The state of all ranks together is the largest.
enum class JoinStage : std::uint64_t { connected, under_way, late, failed };

/// What a rank sends to all others about how its joining has ended.
struct JoinOutcome {
  std::int32_t status = WEIR_OK;
  std::array<char, 252> error{};
};

/// One rank's joining of a group, in rounds. It is reached when this rank has nothing more to wait for, or at the end of a round.
class Joining final : public Completion {
 public:
  Joining(std::unique_ptr<cuda::NcclCommunicator>& link, double timeout_seconds) : link_(link), timeout_(timeout_seconds) {}

  void begin(const IdCard& id, int rank, int size) {
    if (id.error[0] != '\0') return give_up(WEIR_ERR_DEVICE, id.error.data());
    try {
      link_ = std::make_unique<cuda::NcclCommunicator>(id.id, rank, size);
      stage_ = JoinStage::under_way;
    } catch (const Error& error) {
      give_up(error.status(), error.what());
    }
  }
  void begin_round() { round_begun_ = Clock::now(); }
  [[nodiscard]] bool reached() override {
    if (stage_ == JoinStage::under_way) look();
    return stage_ != JoinStage::under_way || Clock::now() - round_begun_ > round;
  }
  [[nodiscard]] JoinStage stage() const { return stage_; }
  /// Ends joining with the ranks' `common` stage. If it is `late`, all ranks that are not connected are late, whichever noticed it.
  void end(JoinStage common) {
    if (common == JoinStage::late && stage_ != JoinStage::connected)
      give_up(WEIR_ERR_TIMEOUT, fmt::format("NCCL has not connected it to its peers within {:.1f} s", timeout_.count()));
  }
  [[nodiscard]] const JoinOutcome& outcome() const { return outcome_; }

 private:
  static constexpr std::chrono::milliseconds round{10};

  void look() {
    try {
      if (link_->reached()) stage_ = JoinStage::connected;
    } catch (const Error& error) {
      return give_up(error.status(), error.what());
    }
    if (stage_ == JoinStage::under_way && Clock::now() - begun_ > timeout_) stage_ = JoinStage::late;
  }
  void give_up(weir_status status, const std::string& error) {
    stage_ = JoinStage::failed;
    outcome_.status = status;
    store(outcome_.error, error);
  }

  std::unique_ptr<cuda::NcclCommunicator>& link_;
  std::chrono::duration<double> timeout_;
  Clock::time_point begun_ = Clock::now(), round_begun_;
  JoinStage stage_ = JoinStage::connected;  // of a rank that is not in the group, or alone in it
  JoinOutcome outcome_;
};

/// Memory that is kept if the run breaks off, because its messages use it.
struct Connecting {
  Connecting(std::unique_ptr<cuda::NcclCommunicator>& link, double timeout_seconds) : joining(link, timeout_seconds) {}
  Joining joining;
  std::array<std::uint64_t, 2> words{};
};

/// Connects all groups of a kind at once. All ranks compare how far they have come, again and again: NCCL may never report a rank's
/// failure to its peers, and ranks in other groups would go on without it.
task<void> connect(Channel channel, Connecting& connecting) {
  const StageScope stage = channel.stage(Stage::nccl_connect);
  do {
    connecting.joining.begin_round();
    co_await channel.done(connecting.joining);
    connecting.words[0] = static_cast<std::uint64_t>(connecting.joining.stage());
    co_await allreduce_control(channel, connecting.words.data(), 1, 1, connecting.words.data() + 1);
  } while (connecting.words[0] == static_cast<std::uint64_t>(JoinStage::under_way));
  connecting.joining.end(static_cast<JoinStage>(connecting.words[0]));
}

std::span<const int> members_of(NcclGroup group, const Topology& topology, std::span<const int> everybody) {
  if (group == NcclGroup::all) return everybody;
  if (group == NcclGroup::node) return topology.node_peers();
  return ShardMap(topology, 0).mine() < 0 ? std::span<const int>{} : topology.local_rank_peers();
}

}  // namespace

void NcclGroups::abort() noexcept {
  aborted_ = true;
  cuda::NcclCommunicator::abort_all(links_);
}

void NcclGroups::look_for_errors() {
  if (aborted_) fail(WEIR_ERR_DEVICE, "NCCL was aborted after an error of another plan");
  for (const auto& link : links_) {
    if (link) static_cast<void>(link->reached());
  }
}

std::string NcclGroups::take_gpu() {
  if (aborted_) return "NCCL was aborted after an error: make a new communicator";
  const std::string bus_id = cuda::describe(cuda::current_device()).bus_id;
  if (!bus_id_.empty() && bus_id != bus_id_)
    return fmt::format("its GPU is at {}, and that of earlier plans at {}: make another communicator", bus_id, bus_id_);
  bus_id_ = bus_id;
  return {};
}

std::string connect_nccl(CommunicatorState& comm, int tag, std::span<const NcclGroup> wanted) {
  if (comm.gpu_memory_goes_to_transport)
    return "plans made before hand GPU memory to MPI, which must not work beside NCCL: make plans that use NCCL first, or set "
           "WEIR_CUDA_AWARE_MPI=off";
  std::shared_ptr<NcclGroups> groups = comm.nccl;
  Card mine;
  mine.version = cuda::nccl_version();
  std::string why_not = reason_of_this_rank();
  try {
    if (why_not.empty() && !groups) groups = std::make_shared<NcclGroups>();
    if (why_not.empty()) why_not = groups->take_gpu();
    if (groups) store(mine.bus_id, groups->bus_id_);
  } catch (const Error& error) {
    why_not = error.what();
  }
  store(mine.why_not, why_not);
  const std::span<const Card> cards = comm.share("asking who has NCCL", mine);
  if (std::string obstacle = find_obstacle(comm.topology, cards); !obstacle.empty()) return obstacle;

  comm.nccl = groups;
  try {
    for (const NcclGroup group : wanted) groups->connect(comm, tag, group);
  } catch (...) {
    groups->abort();
    throw;
  }
  return {};
}

void NcclGroups::connect(CommunicatorState& comm, int tag, NcclGroup group) {
  const auto place = static_cast<std::size_t>(group);
  if (connected_[place]) return;
  std::vector<int> everybody(static_cast<std::size_t>(comm.topology.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const std::span<const int> members = members_of(group, comm.topology, everybody);
  const int me = comm.topology.rank();
  const auto ids = comm.share("exchanging ids of NCCL", make_id_card(members.size() > 1 && members[0] == me));
  const auto connecting = std::make_shared<Connecting>(links_[place], comm.settings.timeout_seconds);
  if (members.size() > 1) {
    const auto index = std::lower_bound(members.begin(), members.end(), me) - members.begin();
    connecting->joining.begin(ids[static_cast<std::size_t>(members[0])], static_cast<int>(index), static_cast<int>(members.size()));
  }
  try {
    comm.run_blocking("connecting GPUs", tag, [&](Channel channel) { return detail::connect(channel, *connecting); });
  } catch (...) {
    keep_forever(connecting);
    throw;
  }
  const auto outcomes = comm.share("connecting GPUs", connecting->joining.outcome());
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].status != WEIR_OK)
      fail_alike(static_cast<weir_status>(outcomes[rank].status), "NCCL cannot connect GPUs; rank {}: {}", rank,
                 outcomes[rank].error.data());
  }
  connected_[place] = true;
}

}  // namespace weir::detail
