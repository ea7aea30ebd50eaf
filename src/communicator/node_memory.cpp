#include "communicator/node_memory.hpp"

#include <algorithm>
#include <limits>

#include "base/memory.hpp"
#include "communicator/communicator.hpp"

namespace weir::detail {
namespace {

constexpr std::int64_t alignment = 64, page = 4096;
// A new segment for a small block is as large as all that is mapped, within these limits: there are few segments.
constexpr std::int64_t least_segment = std::int64_t{1} << 22, most_spare = std::int64_t{1} << 26;
// Pages are allocated for a block and for some that may follow: ranks agree rarely, and little lies idle.
constexpr std::int64_t least_more = std::int64_t{1} << 18, most_more = std::int64_t{1} << 23;

constexpr std::int64_t round_up(std::int64_t bytes, std::int64_t to) { return (bytes + to - 1) / to * to; }

/// What a rank sends to the others while a segment is made, or its pages are taken.
struct SegmentCard {
  Outcome outcome;
  std::int64_t room = 0;  ///< for each rank of its node, or the first bytes that have pages
  SegmentName name{};     ///< of the segment, on the rank that has made it
  std::uint64_t token = 0;
};

/// Returns the error of the lowest rank that has one.
Outcome first_error(std::span<const SegmentCard> cards) {
  Outcome error;
  for (std::size_t rank = 0; rank < cards.size() && !error.failed(); ++rank) {
    if (cards[rank].outcome.failed()) error.set_formatted(WEIR_ERR_MEMORY, "rank {}: {}", rank, cards[rank].outcome.text.data());
  }
  return error;
}

}  // namespace

void NodeMemory::prepare() {
  segments_.reserve(segments_.size() + 1);
  for (Segment& segment : segments_) {
    if (segment.used.size() == segment.used.capacity()) segment.used.reserve(2 * segment.used.size() + 1);
  }
}

NodeMemory::Block NodeMemory::take(CommunicatorState& comm, std::int64_t bytes, Outcome& why) {
  bytes = round_up(std::max<std::int64_t>(bytes, 1), alignment);
  Block block = place(bytes);
  if (block.segment < 0) {
    drop_unused(0);
    why = add_segment(comm, bytes);
    if (why.failed()) return {};
    block = place(bytes);
  }
  why = take_pages(comm, block);
  if (!why.failed()) return block;
  give_back(block);
  return {};
}

/// Takes the first gap that is large enough.
NodeMemory::Block NodeMemory::place(std::int64_t bytes) noexcept {
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    Segment& segment = segments_[i];
    std::int64_t offset = 0;
    auto next = segment.used.begin();
    while (next != segment.used.end() && next->offset - offset < bytes) {
      offset = next->offset + next->bytes;
      ++next;
    }
    if (next == segment.used.end() && segment.bytes - offset < bytes) continue;
    return *segment.used.insert(next, Block{static_cast<int>(i), offset, bytes});
  }
  return {};
}

void NodeMemory::give_back(const Block& block) noexcept {
  if (block.segment < 0) return;
  Segment& segment = segments_[static_cast<std::size_t>(block.segment)];
  std::erase_if(segment.used, [&](const Block& other) { return other.offset == block.offset; });
  if (segment.used.empty()) drop_unused(1);
}

void NodeMemory::drop_unused(std::size_t keep) noexcept {
  for (Segment& segment : segments_) {
    if (segment.bytes == 0 || !segment.used.empty()) continue;
    if (keep > 0) {
      --keep;
      continue;
    }
    segment.memory.reset();
    segment.bytes = segment.taken = 0;
  }
}

std::int64_t NodeMemory::next_segment_bytes(std::int64_t bytes, std::int64_t room) const {
  const std::int64_t spare = std::min(std::clamp(mapped(), least_segment, most_spare), room / 4);
  return round_up(std::max(bytes, spare), page);
}

std::int64_t NodeMemory::next_taken(const Segment& segment, std::int64_t end) {
  const std::int64_t more = std::clamp(segment.taken / 2, least_more, most_more);
  return std::min(segment.bytes, round_up(std::max(end, segment.taken + more), page));
}

/// Allocates the pages of a block, unless they have been, and more if there is room. Collective. If that fails, returns the reason
/// on every rank.
Outcome NodeMemory::take_pages(CommunicatorState& comm, const Block& block) {
  Segment& segment = segments_[static_cast<std::size_t>(block.segment)];
  const std::int64_t end = block.offset + block.bytes;
  if (end <= segment.taken) return {};
  SegmentCard mine;
  mine.room = next_taken(segment, end);
  const auto take = [&] {
    const int me = comm.topology.local_rank(comm.topology.rank());
    if (segment.memory) segment.memory->take_pages(me * segment.bytes + segment.taken, mine.room - segment.taken);
  };
  mine.outcome = outcome_of(take);
  if (mine.outcome.failed()) {
    mine.room = round_up(end, page);
    mine.outcome = outcome_of(take);
  }
  const auto cards = comm.share("taking shared memory", mine);
  const Outcome error = first_error(cards);
  if (error.failed()) return error;
  segment.taken = mine.room;
  for (const SegmentCard& card : cards) segment.taken = std::min(segment.taken, card.room);
  return {};
}

/// Adds a segment for at least one block of `bytes`. Collective. If that fails, returns the reason on every rank.
Outcome NodeMemory::add_segment(CommunicatorState& comm, std::int64_t bytes) {
  const std::span<const int> node = comm.topology.node_peers();
  const int me = comm.topology.local_rank(comm.topology.rank());
  const auto ranks = static_cast<std::int64_t>(node.size());
  Segment segment;
  SegmentCard mine;

  // 1. Is there room on every node? If not, stop here.
  mine.room = std::numeric_limits<std::int64_t>::max();
  mine.outcome = outcome_of([&] {
    const auto available = static_cast<std::int64_t>(std::min(available_memory(), 1e18));
    if (ranks > 1) mine.room = std::min(comm.transport->shared_memory_room(), available) / ranks;
    segment.used.reserve(1);
  });
  const auto rooms = comm.share("looking for shared memory", mine);
  if (const Outcome error = first_error(rooms); error.failed()) return error;
  const auto least = std::min_element(rooms.begin(), rooms.end(), [](const auto& a, const auto& b) { return a.room < b.room; });
  if (least->room < round_up(bytes, page)) {
    Outcome error;
    error.set_formatted(WEIR_ERR_MEMORY, "each rank needs {} bytes, and /dev/shm on the node of rank {} has room for {}", bytes,
                        least - rooms.begin(), least->room);
    return error;
  }
  segment.bytes = next_segment_bytes(bytes, least->room);
  segment.taken = next_taken(segment, bytes);

  // 2. The first rank of each node makes the segment.
  mine.outcome = outcome_of([&] {
    if (ranks > 1 && me == 0) segment.memory = comm.transport->shared_segments()->make_segment(segment.bytes * ranks, mine.name);
  });
  mine.token = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) * 257 + static_cast<std::uint64_t>(node[0]);
  const auto made = comm.share("making shared memory", mine);
  if (const Outcome error = first_error(made); error.failed()) return error;

  // 3. The others open it. Each rank takes the first pages that it will write to.
  const SegmentCard first = made[static_cast<std::size_t>(node[0])];
  mine.outcome = outcome_of([&] {
    if (ranks == 1) return;
    if (me != 0) segment.memory = comm.transport->shared_segments()->open_segment(first.name.data(), segment.bytes * ranks);
    segment.memory->take_pages(me * segment.bytes, segment.taken);
    if (me == 0) *reinterpret_cast<std::uint64_t*>(segment.memory->data()) = first.token;
  });
  sync_shared_memory();
  const auto opened = comm.share("opening shared memory", mine);
  if (segment.memory) segment.memory->forget_name();
  if (const Outcome error = first_error(opened); error.failed()) return error;

  // 4. Is it the same memory? Two containers may have one host name.
  mine.outcome = outcome_of([&] {
    sync_shared_memory();
    if (ranks > 1 && *reinterpret_cast<const std::uint64_t*>(segment.memory->data()) != first.token)
      fail(WEIR_ERR_MEMORY, "it does not share memory with rank {}, though their host names are the same", node[0]);
  });
  const auto checked = comm.share("checking shared memory", mine);
  if (const Outcome error = first_error(checked); error.failed()) return error;

  const auto free = std::find_if(segments_.begin(), segments_.end(), [](const Segment& s) { return s.bytes == 0; });
  if (free != segments_.end())
    *free = std::move(segment);
  else
    segments_.push_back(std::move(segment));
  return {};
}

SharedMemory NodeMemory::memory(const Block& block) const {
  if (block.segment < 0) return {};
  const Segment& segment = segments_[static_cast<std::size_t>(block.segment)];
  return segment.memory ? SharedMemory(segment.memory->data() + block.offset, block.bytes, segment.bytes) : SharedMemory();
}

std::int64_t NodeMemory::mapped() const {
  std::int64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.bytes;
  return bytes;
}

std::int64_t NodeMemory::taken() const {
  std::int64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.taken;
  return bytes;
}

}  // namespace weir::detail
