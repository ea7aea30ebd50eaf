// synthetic.cpp: machines made up from a line of text.
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "topology/topology.hpp"

namespace weir {

namespace {

constexpr std::int64_t max_ranks = 1 << 20;
constexpr std::array<std::string_view, 6> level_words{"switch", "node", "socket", "numa", "l3", "rank"};
enum Word : std::size_t { word_switch, word_node, word_socket, word_numa, word_l3, word_rank };

/// The count of each level of a description; no value if it is left out.
using Counts = std::array<std::optional<int>, level_words.size()>;

std::int64_t parse_count(std::string_view text, std::string_view description) {
  std::int64_t count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  require(problem == std::errc() && end == text.data() + text.size() && count >= 1 && count <= max_ranks,
          "synthetic machine \"{}\": \"{}\" should be a number from 1 to {}", description, text, max_ranks);
  return count;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Counts parse_levels(std::string_view description) {
  Counts counts;
  std::size_t next = 0;
  std::int64_t ranks = 1;
  for (std::string_view item : split(description, ' ')) {
    if (item.empty()) continue;
    const std::size_t colon = item.find(':');
    require(colon != std::string_view::npos, "synthetic machine \"{}\": \"{}\" should look like level:count", description, item);
    const std::string_view word = item.substr(0, colon);
    const auto level = static_cast<std::size_t>(std::find(level_words.begin(), level_words.end(), word) - level_words.begin());
    require(level < level_words.size(), "synthetic machine \"{}\": no level \"{}\"; the levels are {}{}", description, word,
            fmt::join(level_words, ", "), word == "nodes" ? "; \"nodes:3,1,2\" must stand alone" : "");
    require(level >= next, "synthetic machine \"{}\": \"{}\" is given twice or too late; the order is {}", description, word,
            fmt::join(level_words, ", "));
    next = level + 1;
    const std::int64_t count = parse_count(item.substr(colon + 1), description);
    ranks *= count;
    require(ranks <= max_ranks, "synthetic machine \"{}\": more than {} ranks", description, max_ranks);
    counts[level] = static_cast<int>(count);
  }
  require(counts[word_rank].has_value(), "synthetic machine \"{}\": the last level must be rank:count", description);
  return counts;
}

Location on_node(int node) {
  Location location;
  store_name(location.host, fmt::format("n{}", node));
  return location;
}

/// Numbers the parts of one kind within a node during the walk; stays -1 if the description leaves them out.
struct PartCounter {
  int per_parent;
  bool known;
  std::int32_t index(int parent, int child) const { return known ? parent * per_parent + child : -1; }
};

PartCounter counter(const std::optional<int>& count) { return {count.value_or(1), count.has_value()}; }

void append_node(std::vector<Location>& machine, const Counts& counts, Location location) {
  const PartCounter socket = counter(counts[word_socket]), numa = counter(counts[word_numa]), l3 = counter(counts[word_l3]);
  for (int s = 0; s < socket.per_parent; ++s) {
    location.socket = socket.index(0, s);
    for (int m = 0; m < numa.per_parent; ++m) {
      location.numa = numa.index(s, m);
      for (int c = 0; c < l3.per_parent; ++c) {
        location.l3 = l3.index(s * numa.per_parent + m, c);
        machine.insert(machine.end(), static_cast<std::size_t>(*counts[word_rank]), location);
      }
    }
  }
}

Location on_switch(Location location, std::size_t number) {
  store_name(location.switch_address, fmt::format("spine.leaf{}", number));
  return location;
}

std::vector<Location> machine_of_levels(const Counts& counts) {
  std::vector<Location> machine;
  const int switches = counts[word_switch].value_or(1), nodes = counts[word_node].value_or(1);
  for (int node = 0; node < switches * nodes; ++node) {
    const Location location = on_node(node);
    append_node(machine, counts, counts[word_switch] ? on_switch(location, static_cast<std::size_t>(node / nodes)) : location);
  }
  return machine;
}

std::vector<Location> machine_of_node_sizes(std::string_view sizes, std::string_view description) {
  std::vector<Location> machine;
  int node = 0;
  for (std::string_view size : split(sizes, ',')) {
    const auto ranks = static_cast<std::size_t>(parse_count(size, description));
    require(machine.size() + ranks <= max_ranks, "synthetic machine \"{}\": more than {} ranks", description, max_ranks);
    machine.insert(machine.end(), ranks, on_node(node++));
  }
  return machine;
}

/// Makes the machine from what follows "switches:", such as "2,1 socket:2 rank:3".
std::vector<Location> machine_of_switch_sizes(std::string_view sizes_and_levels, std::string_view description) {
  const std::size_t end = std::min(sizes_and_levels.find(' '), sizes_and_levels.size());
  const std::vector<std::string_view> sizes = split(sizes_and_levels.substr(0, end), ',');
  std::vector<int> nodes;
  for (const std::string_view size : sizes) nodes.push_back(static_cast<int>(parse_count(size, description)));
  const Counts counts = parse_levels(sizes_and_levels.substr(end));
  require(!counts[word_switch] && !counts[word_node],
          "synthetic machine \"{}\": after switches:{} come the levels inside a node, as in \"switches:2,1 rank:3\"", description,
          sizes_and_levels.substr(0, end));
  std::vector<Location> node_ranks, machine;
  append_node(node_ranks, counts, {});
  const auto all = std::accumulate(nodes.begin(), nodes.end(), std::int64_t{0});
  require(all * static_cast<std::int64_t>(node_ranks.size()) <= max_ranks, "synthetic machine \"{}\": more than {} ranks",
          description, max_ranks);
  int node = 0;
  for (std::size_t number = 0; number < nodes.size(); ++number) {
    for (const int last = node + nodes[number]; node < last; ++node) append_node(machine, counts, on_switch(on_node(node), number));
  }
  return machine;
}

}  // namespace

std::vector<Location> synthetic_machine(std::string_view description) {
  constexpr std::string_view node_sizes = "nodes:", switch_sizes = "switches:";
  if (description.starts_with(switch_sizes)) return machine_of_switch_sizes(description.substr(switch_sizes.size()), description);
  if (description.starts_with(node_sizes)) return machine_of_node_sizes(description.substr(node_sizes.size()), description);
  return machine_of_levels(parse_levels(description));
}

}  // namespace weir
