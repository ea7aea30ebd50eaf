#include "model/steps.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace weir::model {

StepCost& StepCost::operator+=(const StepCost& other) {
  seconds += other.seconds;
  bytes_in_node += other.bytes_in_node;
  bytes_across += other.bytes_across;
  steps += other.steps;
  return *this;
}

double transfer_across(const Link& link, double bytes, int senders, bool mutual) {
  const double rate = std::min(link.bandwidth, link.shared / senders);
  return link.latency + bytes / (mutual ? rate * std::min(1.0, link.exchange / link.bandwidth) : rate);
}

double transfer_inside(const Link& link, double bytes, int senders, bool mutual) {
  const double rate = mutual ? std::min(link.bandwidth, link.exchange) : link.bandwidth;
  return link.latency + bytes / std::min(rate, link.shared / senders);
}

StepCost Network::step(int crossing, int staying, int concurrent, double bytes, bool mutual) const {
  StepCost traffic;
  traffic.steps = 1;
  if (crossing > 0) {
    traffic.seconds = transfer_across(across_, bytes, crossing * concurrent, mutual);
    traffic.bytes_across = bytes;
  }
  if (staying > 0) {
    traffic.seconds = std::max(traffic.seconds, transfer_inside(inside_, bytes, staying * concurrent, mutual));
    traffic.bytes_in_node = bytes;
  }
  return traffic;
}

namespace {

/// Returns the number of a node's ranks whose peer at this cyclic distance is on another node.
int crossing_shift(const Group& group, int distance) {
  if (group.per_node >= group.ranks) return 0;
  return std::min({group.per_node, distance, group.ranks - distance});
}

/// Returns the largest number of a node's ranks whose mirrored peer is on another node.
int crossing_mirror(const Group& group, int doubling, int distance) {
  if (group.per_node >= group.ranks) return 0;
  if (group.per_node == 1) return distance < doubling ? 1 : 0;
  if (std::has_single_bit(static_cast<unsigned>(group.per_node)) && group.per_node <= doubling && distance < doubling)
    return distance < group.per_node ? 0 : group.per_node;
  int most = 0;
  for (int first = 0; first < doubling; first += group.per_node) {
    int crossing = 0;
    for (int rank = first; rank < std::min(doubling, first + group.per_node); ++rank)
      crossing += (rank ^ distance) / group.per_node != rank / group.per_node;
    most = std::max(most, crossing);
  }
  return most;
}

int power_of_two(const Group& group) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(group.ranks))); }

}  // namespace

StepCost Network::shift(const Group& group, int distance, double bytes) const {
  const int crossing = crossing_shift(group, distance);
  return step(crossing, group.per_node - crossing, group.concurrent, bytes, 2 * distance == group.ranks);
}

StepCost Network::mirror(const Group& group, int distance, double bytes) const {
  const int doubling = power_of_two(group);
  const int crossing = crossing_mirror(group, doubling, distance);
  return step(crossing, std::min(group.per_node, doubling) - crossing, group.concurrent, bytes, true);
}

StepCost Network::fold(const Group& group, double bytes, bool mutual) const {
  const int doubling = power_of_two(group);
  const int extra = group.ranks - doubling;
  const int senders = std::min(group.per_node, extra);
  const bool crosses = group.per_node < group.ranks;
  return step(crosses ? senders : 0, crosses ? 0 : senders, group.concurrent, bytes, mutual);
}

StepCost Network::allgather(const Group& group, double bytes) const {
  StepCost traffic;
  for (int distance = 1; distance < group.ranks; distance *= 2)
    traffic += shift(group, distance, std::min(distance, group.ranks - distance) * bytes);
  return traffic;
}

StepCost Network::ring_allgather(const Group& group, double bytes) const {
  StepCost traffic;
  for (int s = 1; s < group.ranks; ++s) traffic += shift(group, 1, bytes);
  return traffic;
}

StepCost Network::allreduce_control(const Group& group, double bytes) const {
  StepCost traffic;
  const int doubling = power_of_two(group);
  for (int distance = 1; distance < doubling; distance *= 2) traffic += mirror(group, distance, bytes);
  if (doubling < group.ranks) {
    traffic += fold(group, bytes, false);
    traffic += fold(group, bytes, false);
  }
  return traffic;
}

StepCost Network::alltoall_control(const Group& group, double bytes) const {
  if (group.ranks <= most_direct_words) return all_to_all(group, bytes, group.ranks);
  StepCost traffic;
  for (int places = 1; places < group.ranks; places *= 2) {
    const int words = group.ranks / (2 * places) * places + std::max(0, group.ranks % (2 * places) - places);
    traffic += shift(group, places, words * bytes);
  }
  return traffic;
}

StepCost Network::all_to_all(const Group& group, double bytes, int window) const {
  StepCost traffic;
  if (group.ranks == 1) return traffic;
  const int near = std::min(group.per_node, group.ranks) - 1, far = group.ranks - 1 - near;
  const Link& farthest = far > 0 ? across_ : inside_;
  traffic.bytes_in_node = near * bytes;
  traffic.bytes_across = far * bytes;
  const int senders = group.per_node * group.concurrent;
  // Two ranks are each other's peers at distances s and P - s. Both are in flight at once for the share of messages in a window.
  const double mutual = std::min(1.0, static_cast<double>(window) / (group.ranks - 1));
  const auto seconds = [&](auto transfer, const Link& link, double sent) {
    return mutual * transfer(link, sent, senders, true) + (1 - mutual) * transfer(link, sent, senders, false) - link.latency;
  };
  const double near_seconds = near > 0 ? seconds(transfer_inside, inside_, traffic.bytes_in_node) : 0;
  const double far_seconds = far > 0 ? seconds(transfer_across, across_, traffic.bytes_across) : 0;
  const int rounds = (group.ranks - 1 + window - 1) / window;
  traffic.steps = rounds;
  traffic.seconds =
      rounds * farthest.latency + (group.ranks - 1 - rounds) * farthest.overhead + std::max(near_seconds, far_seconds);
  return traffic;
}

StepCost Network::tree_level(const Group& group, int distance, double bytes) const {
  const bool crosses = group.per_node < group.ranks && (distance >= group.per_node || group.per_node % (2 * distance) != 0);
  return step(crosses ? 1 : 0, crosses ? 0 : std::max(1, group.per_node / (2 * distance)), group.concurrent, bytes, false);
}

StepCost Network::local(int senders, int messages, double bytes) const {
  StepCost traffic;
  if (messages < 1) return traffic;
  traffic.steps = 1;
  traffic.bytes_in_node = messages * bytes;
  traffic.seconds = transfer_inside(inside_, traffic.bytes_in_node, senders, false) + (messages - 1) * inside_.overhead;
  return traffic;
}

double message_bytes(const Problem& problem, double entries, double range) {
  if (!(entries > 0)) return 0;
  const double value = problem.values == WireValues::native ? problem.value_bytes : 2;
  const double coo = value + 4;
  if (problem.format == WireFormat::coo) return entries * coo;
  const double bitmap = entries * value + range / 8;
  const double dense = range * value;
  double least = std::min({entries * coo, bitmap, dense});
  for (const int low_bits : {4, 8, 12, 16})
    least = std::min(least, entries * (value + (low_bits + 1) / 8.0) + range / static_cast<double>(1 << low_bits) / 8);
  return least;
}

double distinct(double range, double k, int contributions) {
  if (!(range > 0)) return 0;
  if (k >= range) return range;
  // Computes 1 - (1 - k / range)^contributions digit by digit, not by the mathematics library, whose last bits depend on the
  // processor: ranks choose schedules by the result, so it must be the same on all.
  const double share = k / range;
  double filled = 0;
  for (unsigned digit = std::bit_floor(static_cast<unsigned>(contributions)); digit > 0; digit /= 2) {
    filled *= 2 - filled;
    if ((static_cast<unsigned>(contributions) & digit) != 0) filled += share * (1 - filled);
  }
  return range * filled;
}

int tree_depth(int ranks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1))); }

}  // namespace weir::model
