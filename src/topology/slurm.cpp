#include "topology/slurm.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <vector>

namespace weir {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string_view without_domain(std::string_view name) { return name.substr(0, name.find('.')); }

/// Returns the switches in the environment's address; empty if it is not the address of `host`. The pattern,
/// "switch.switch.node", says how many names precede the node's, which may contain dots itself.
std::string_view address_in_environment(std::string_view pattern, std::string_view host) {
  if (pattern.empty()) return {};
  const std::string_view address = environment("SLURM_TOPOLOGY_ADDR");
  std::size_t dot = std::string_view::npos;
  for (auto switches = std::count(pattern.begin(), pattern.end(), '.'); switches > 0; --switches) {
    dot = address.find('.', dot + 1);
    if (dot == std::string_view::npos) return {};
  }
  return without_domain(address.substr(dot + 1)) == without_domain(host) ? address.substr(0, dot) : std::string_view();
}

std::string read_topology_conf() {
  std::vector<std::string> folders;
  if (const std::string_view conf = environment("SLURM_CONF"); !conf.empty())
    folders.emplace_back(conf.substr(0, conf.rfind('/') + 1));
  else
    folders = {"/etc/slurm/", "/run/slurm/conf/"};
  for (const std::string& folder : folders) {
    std::ifstream file(folder + "topology.conf");
    if (file) return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  return {};
}

/// Takes what precedes the next separator outside brackets from `text`, and the separator.
std::string_view take_until(std::string_view& text, std::string_view separators) {
  int depth = 0;
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (depth == 0 && separators.find(text[end]) != std::string_view::npos) break;
    depth += text[end] == '[' ? 1 : text[end] == ']' ? -1 : 0;
  }
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

std::optional<std::uint64_t> number_of(std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (problem != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

/// Returns whether `digits` is in a range such as "01-12" or "7". It must have as many digits as the first number, or more and no
/// leading zero.
bool in_range(std::string_view range, std::string_view digits) {
  const std::string_view first = range.substr(0, range.find('-'));
  const std::string_view last = range.substr(range.find('-') == std::string_view::npos ? 0 : range.find('-') + 1);
  const auto low = number_of(first), high = number_of(last), number = number_of(digits);
  if (!low || !high || !number) return false;
  const bool written_alike = digits.size() == first.size() || (digits.size() > first.size() && digits.front() != '0');
  return written_alike && *low <= *number && *number <= *high;
}

bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t open = pattern.find('[');
  if (open == std::string_view::npos) return pattern == name;
  const std::size_t close = pattern.find(']', open);
  if (close == std::string_view::npos || !name.starts_with(pattern.substr(0, open))) return false;
  name.remove_prefix(open);
  std::string_view ranges = pattern.substr(open + 1, close - open - 1);
  while (!ranges.empty()) {
    const std::string_view range = take_until(ranges, ",");
    for (std::size_t digits = 1; digits <= name.size() && std::isdigit(static_cast<unsigned char>(name[digits - 1])); ++digits) {
      if (in_range(range, name.substr(0, digits)) && matches(pattern.substr(close + 1), name.substr(digits))) return true;
    }
  }
  return false;
}

struct Switch {
  std::string_view name, nodes, switches;
};

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::vector<Switch> parse(std::string_view conf) {
  std::vector<Switch> all;
  while (!conf.empty()) {
    std::string_view line = take_until(conf, "\n");
    line = line.substr(0, line.find('#'));
    Switch one;
    while (!line.empty()) {
      std::string_view value = take_until(line, " \t\r");
      const std::string_view key = take_until(value, "=");
      if (same_word(key, "SwitchName")) one.name = value;
      if (same_word(key, "Nodes")) one.nodes = value;
      if (same_word(key, "Switches")) one.switches = value;
    }
    if (!one.name.empty()) all.push_back(one);
  }
  return all;
}

}  // namespace

bool in_host_list(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    if (matches(take_until(list, ","), name)) return true;
  }
  return false;
}

std::string switch_address_in(std::string_view topology_conf, std::string_view node) {
  const std::vector<Switch> all = parse(topology_conf);
  auto found = std::find_if(all.begin(), all.end(), [&](const Switch& one) { return in_host_list(one.nodes, node); });
  std::string address;
  for (std::size_t level = 0; found != all.end() && level < all.size(); ++level) {  // the bound ends cycles, too
    address.insert(0, std::string(found->name) + (address.empty() ? "" : "."));
    const std::string_view below = found->name;
    found = std::find_if(all.begin(), all.end(), [&](const Switch& one) { return in_host_list(one.switches, below); });
  }
  return address;
}

std::string slurm_switch_address(std::string_view host) {
  const std::string_view pattern = environment("SLURM_TOPOLOGY_ADDR_PATTERN");
  if (!pattern.empty() && !pattern.ends_with(".node")) return {};  // SLURM has no switches
  if (const std::string_view address = address_in_environment(pattern, host); !address.empty()) return std::string(address);
  if (environment("SLURM_JOB_ID").empty()) return {};
  return switch_address_in(read_topology_conf(), without_domain(host));
}

}  // namespace weir
