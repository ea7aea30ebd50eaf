// topology.cpp: names in fixed fields, levels, groups of ranks, and the tree as text.
#include "topology/topology.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/config_check.hpp"
#include "base/error.hpp"

namespace weir {

namespace {

/// FNV-1a.
std::uint32_t hash_of(std::string_view text) noexcept {
  std::uint32_t hash = 2166136261u;
  for (unsigned char c : text) hash = (hash ^ c) * 16777619u;
  return hash;
}

/// Numbers different names in order of first appearance.
class Numbering {
 public:
  int operator()(std::string_view name) {
    return numbers_.try_emplace(std::string(name), static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::string, int> numbers_;
};

bool known_equal(std::int32_t a, std::int32_t b) noexcept { return a >= 0 && a == b; }

void check_rank(int rank, int size) { require(rank >= 0 && rank < size, "rank {} is outside 0 .. {}", rank, size - 1); }

}  // namespace

std::string_view level_name(Level level) noexcept { return name_of(level); }

void store_name(std::span<char> field, std::string_view name) noexcept {
  std::fill(field.begin(), field.end(), '\0');
  const std::size_t room = field.size() - 1;
  const std::size_t copied = std::min(name.size(), room);
  std::copy_n(name.begin(), copied, field.begin());
  if (copied == name.size()) return;
  constexpr std::size_t digits = 8;
  char* mark = field.data() + room - digits - 1;
  *mark = '~';
  fmt::format_to_n(mark + 1, digits, "{:08x}", hash_of(name));
}

std::string_view stored_name(std::span<const char> field) noexcept {
  return {field.data(), static_cast<std::size_t>(std::find(field.begin(), field.end(), '\0') - field.begin())};
}

Topology::Topology(std::vector<Location> locations, int rank) : locations_(std::move(locations)), rank_(rank) {
  require(!locations_.empty(), "a topology needs the location of at least one rank");
  check_rank(rank, size());
  Numbering number_node, number_switch;
  for (const Location& location : locations_) {
    const int node = number_node(fmt::format("{} {}", stored_name(location.host), stored_name(location.boot)));
    const int self = static_cast<int>(node_of_.size());
    if (node == static_cast<int>(node_size_.size())) {
      node_size_.push_back(0);
      switch_of_node_.push_back(-1);
      leaders_.push_back(self);
    }
    const auto at = static_cast<std::size_t>(node);
    node_of_.push_back(node);
    local_rank_.push_back(node_size_[at]++);
    const std::string_view address = stored_name(location.switch_address);
    if (switch_of_node_[at] >= 0 || address.empty()) continue;
    switch_of_node_[at] = number_switch(address);
    if (switch_of_node_[at] == static_cast<int>(switch_names_.size())) switch_names_.emplace_back(address);
  }
  for (int other = 0; other < size(); ++other) {
    if (node_of(other) == node_of(rank)) node_peers_.push_back(other);
    if (local_rank(other) == local_rank(rank)) local_rank_peers_.push_back(other);
  }
}

Level Topology::level(int a, int b) const {
  check_rank(a, size());
  check_rank(b, size());
  if (a == b) return Level::self;
  if (const int here = node_of(a), there = node_of(b); here != there) {
    const int switch_here = switch_of_node_[static_cast<std::size_t>(here)];
    return known_equal(switch_here, switch_of_node_[static_cast<std::size_t>(there)]) ? Level::switch_group : Level::system;
  }
  const Location &x = locations_[static_cast<std::size_t>(a)], &y = locations_[static_cast<std::size_t>(b)];
  if (known_equal(x.l3, y.l3)) return Level::l3;
  if (known_equal(x.numa, y.numa)) return Level::numa;
  if (known_equal(x.socket, y.socket)) return Level::socket;
  return Level::node;
}

int Topology::node_count() const noexcept { return static_cast<int>(leaders_.size()); }

int Topology::node_of(int rank) const {
  check_rank(rank, size());
  return node_of_[static_cast<std::size_t>(rank)];
}

int Topology::local_rank(int rank) const {
  check_rank(rank, size());
  return local_rank_[static_cast<std::size_t>(rank)];
}

std::span<const int> Topology::node_peers() const noexcept { return node_peers_; }
std::span<const int> Topology::local_rank_peers() const noexcept { return local_rank_peers_; }
std::span<const int> Topology::leaders() const noexcept { return leaders_; }

int Topology::smallest_node() const noexcept { return *std::min_element(node_size_.begin(), node_size_.end()); }
int Topology::largest_node() const noexcept { return *std::max_element(node_size_.begin(), node_size_.end()); }

namespace {

using Ranks = std::vector<int>;

/// Returns, for example, "ranks 0-3, 8".
std::string ranks_text(const Ranks& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t first = 0, next; first < ranks.size(); first = next) {
    for (next = first + 1; next < ranks.size() && ranks[next] == ranks[next - 1] + 1;) ++next;
    text += fmt::format("{}{}", first == 0 ? "" : ", ", ranks[first]);
    if (next - first > 1) text += fmt::format("-{}", ranks[next - 1]);
  }
  return text;
}

struct Part {
  const char* name;
  std::int32_t Location::*index;
};
constexpr std::array<Part, 3> node_parts{{{"socket", &Location::socket}, {"numa", &Location::numa}, {"l3", &Location::l3}}};

/// Appends the lines of the parts, from `part` inward, that tell the ranks of one group apart.
void append_parts(std::string& text, const std::vector<Location>& locations, const Ranks& ranks, std::size_t part, int indent) {
  if (part == node_parts.size()) return;
  std::map<std::int32_t, Ranks> groups;
  for (int rank : ranks) groups[locations[static_cast<std::size_t>(rank)].*node_parts[part].index].push_back(rank);
  if (groups.size() == 1) return append_parts(text, locations, ranks, part + 1, indent);
  for (const auto& [index, members] : groups) {
    if (index < 0) continue;
    text += fmt::format("{:{}}{} {}: {}\n", "", indent, node_parts[part].name, index, ranks_text(members));
    append_parts(text, locations, members, part + 1, indent + 2);
  }
}

}  // namespace

std::string Topology::tree() const {
  std::vector<Ranks> nodes(leaders_.size());
  for (int rank = 0; rank < size(); ++rank) nodes[static_cast<std::size_t>(node_of(rank))].push_back(rank);
  std::map<int, std::vector<std::size_t>> switches;
  for (std::size_t node = 0; node < nodes.size(); ++node) switches[switch_of_node_[node]].push_back(node);

  const bool any_switch = switches.rbegin()->first >= 0;
  const int indent = any_switch ? 2 : 0;
  std::string text;
  for (const auto& [number, members] : switches) {
    if (any_switch) text += fmt::format("switch {}\n", number < 0 ? "unknown" : switch_names_[static_cast<std::size_t>(number)]);
    for (std::size_t node : members) {
      const Location& location = locations_[static_cast<std::size_t>(leaders_[node])];
      text += fmt::format("{:{}}node {}: {}\n", "", indent, stored_name(location.host), ranks_text(nodes[node]));
      append_parts(text, locations_, nodes[node], 0, indent + 2);
    }
  }
  return text;
}

}  // namespace weir
