#include "plan/nccl_groups.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "collectives/control.hpp"
#include "collectives/node_shards.hpp"

namespace weir::detail {
namespace {

/// What a rank tells all others before any of them connects.
struct Card {
  std::int32_t version = 0;
  std::array<char, 16> bus_id{};
  std::array<char, 236> why_not{};  ///< empty: this rank can take part
};

template <std::size_t size>
void store(std::array<char, size>& field, const std::string& text) {
  text.copy(field.data(), size - 1);
}

std::string reason_of_this_rank(const NcclGroups* groups, const std::string& bus_id, const std::string& connected_bus_id) {
  if (!cuda::why_unusable().empty()) return cuda::why_unusable();
  if (std::string reason = cuda::why_no_nccl(); !reason.empty()) return reason;
  if (groups == nullptr) return {};
  if (groups->aborted()) return "NCCL was aborted after an error: make a new communicator";
  if (bus_id != connected_bus_id)
    return fmt::format("its GPU is at {}, and that of earlier plans at {}: make another communicator", bus_id, connected_bus_id);
  return {};
}

/// Why these ranks cannot work together, empty where they can.
std::string find_obstacle(const Topology& topology, std::span<const Card> cards) {
  std::map<std::pair<int, std::string>, int> ranks_by_gpu;
  for (int rank = 0; rank < topology.size(); ++rank) {
    const Card& card = cards[static_cast<std::size_t>(rank)];
    if (card.why_not[0] != '\0') return fmt::format("rank {}: {}", rank, card.why_not.data());
    if (card.version != cards[0].version)
      return fmt::format("rank {} has NCCL {} and rank 0 {}: let all have the same", rank, cuda::nccl_version_text(card.version),
                         cuda::nccl_version_text(cards[0].version));
    const auto [place, first] = ranks_by_gpu.try_emplace({topology.node_of(rank), card.bus_id.data()}, rank);
    if (!first && card.version < cuda::nccl_shares_gpus)
      return fmt::format("ranks {} and {} share the GPU at {}, which NCCL {} does not allow: give each a GPU of its own",
                         place->second, rank, card.bus_id.data(), cuda::nccl_version_text(card.version));
  }
  return {};
}

/// An id, or why there is none.
struct IdCard {
  cuda::NcclId id{};
  std::array<char, 256> error{};
};

struct Connecting {
  std::span<const int> members;
  std::unique_ptr<cuda::NcclCommunicator>& link;
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

task<void> connect(Channel channel, Connecting& connecting) {
  const Channel group = channel.group(connecting.members);
  const IdCard mine = make_id_card(group.rank() == 0);
  std::vector<IdCard> all(connecting.members.size()), scratch(connecting.members.size());
  group.step("exchange an id of NCCL");
  co_await allgather_control(group, reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                             reinterpret_cast<std::byte*>(all.data()), reinterpret_cast<std::byte*>(scratch.data()));
  if (all[0].error[0] != '\0') fail(WEIR_ERR_DEVICE, "{}", all[0].error.data());
  group.step("connect GPUs by NCCL");
  connecting.link = std::make_unique<cuda::NcclCommunicator>(all[0].id, group.rank(), group.size());
  co_await group.happened(*connecting.link);
}

std::span<const int> members_of(NcclGroup group, const Topology& topology, std::span<const int> everybody) {
  if (group == NcclGroup::all) return everybody;
  if (group == NcclGroup::node) return topology.node_peers();
  return ShardMap(topology, 0).mine() < 0 ? std::span<const int>{} : topology.local_rank_peers();
}

}  // namespace

void NcclGroups::abort() noexcept {
  aborted_ = true;
  for (const auto& link : links_) {
    if (link) link->abort();
  }
}

void NcclGroups::look_for_errors() {
  if (aborted_) fail(WEIR_ERR_DEVICE, "NCCL was aborted after an error of another plan");
  for (const auto& link : links_) {
    if (link) static_cast<void>(link->happened());
  }
}

std::string connect_nccl(CommunicatorState& comm, int tag, std::span<const NcclGroup> wanted) {
  const bool usable = cuda::why_unusable().empty();
  const std::string bus_id = usable ? cuda::describe(cuda::current_device()).bus_id : "";
  Card mine;
  mine.version = cuda::nccl_version();
  store(mine.bus_id, bus_id);
  store(mine.why_not, reason_of_this_rank(comm.nccl.get(), bus_id, comm.nccl ? comm.nccl->bus_id_ : ""));
  std::vector<Card> cards(static_cast<std::size_t>(comm.topology.size()));
  allgather_blocking(comm, tag, "asking who has NCCL", reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                     reinterpret_cast<std::byte*>(cards.data()));
  if (std::string obstacle = find_obstacle(comm.topology, cards); !obstacle.empty()) return obstacle;

  if (!comm.nccl) comm.nccl = std::make_shared<NcclGroups>();
  comm.nccl->bus_id_ = bus_id;
  std::vector<int> everybody(cards.size());
  for (std::size_t rank = 0; rank < everybody.size(); ++rank) everybody[rank] = static_cast<int>(rank);
  try {
    for (const NcclGroup group : wanted) {
      auto& link = comm.nccl->links_[static_cast<std::size_t>(group)];
      Connecting connecting{members_of(group, comm.topology, everybody), link};
      if (link || connecting.members.size() < 2) continue;
      comm.run_blocking(
          "connecting GPUs", tag,
          [](Channel channel, void* argument) { return connect(channel, *static_cast<Connecting*>(argument)); }, &connecting);
    }
  } catch (...) {
    comm.nccl->abort();
    throw;
  }
  return {};
}

NcclTurn::~NcclTurn() {
  if (!done_) groups_.abort();
}

task<void> NcclTurn::begin(Channel channel) {
  channel.step("1. wait for a turn with NCCL");
  if (channel.rank() == 0) words_[0] = ++groups_.turns_given_;
  co_await allreduce_control(channel, words_, 1, 1, words_ + 1);
  Waiting waiting(*this);
  co_await channel.happened(waiting);
}

bool NcclTurn::Waiting::happened() {
  if (turn_.groups_.aborted_) fail(WEIR_ERR_DEVICE, "NCCL was aborted after an error of another plan");
  return turn_.groups_.turns_ended_ + 1 == turn_.words_[0];
}

task<void> NcclTurn::issued(Channel channel, cuda::NcclCommunicator* link) {
  if (link != nullptr) co_await channel.happened(*link);
}

task<void> NcclTurn::end(Channel channel, void* stream) {
  ++groups_.turns_ended_;
  event_.record(stream);
  Done done(groups_, event_);
  co_await channel.happened(done);
  done_ = true;
}

bool NcclTurn::Done::happened() {
  groups_.look_for_errors();
  return event_.happened();
}

}  // namespace weir::detail
