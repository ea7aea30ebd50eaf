#include "base/control_groups.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/fingerprint.hpp"

namespace weir {
namespace {

/// Returns the contents of a small file; empty if there is no file. Paths are plain texts here: with GCC 12, std::filesystem::path
/// frees memory twice if memory runs out.
std::string text_of(const std::string& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> in(std::fopen(file.c_str(), "r"), &std::fclose);
  std::string text;
  std::array<char, 512> piece;
  for (std::size_t size; in != nullptr && (size = std::fread(piece.data(), 1, piece.size(), in.get())) > 0;)
    text.append(piece.data(), size);
  return text;
}

/// Takes the first word, or line, off the text.
std::string_view take(std::string_view& text, std::string_view ends) {
  text.remove_prefix(std::min(text.find_first_not_of(ends), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(word.size());
  return word;
}

/// Parses a number. Returns nothing for other words, such as "max".
std::optional<double> number(std::string_view word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(value) : std::nullopt;
}

/// Returns the folders of this process's group and those around it, the process's own first. `controller` is one of version 1,
/// whose hierarchies have folders of their own; empty for version 2.
std::vector<std::string> groups(const GroupFiles& files, const std::string& controller) {
  std::vector<std::string> folders;
  const std::string text = text_of(files.self);
  std::string_view left = text;
  for (std::string_view line; !(line = take(left, "\n")).empty();) {  // "4:cpu,cpuacct:/a/b", of version 2 "0::/a/b"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string names = "," + std::string(line.substr(first + 1, second - first - 1)) + ",";
    if (controller.empty() ? names != ",," : names.find("," + controller + ",") == std::string::npos) continue;
    std::string folder = files.root + (controller.empty() ? "" : "/" + controller);
    const std::size_t root = folder.size();
    folder += line.substr(second + 1);
    while (folder.ends_with('/')) folder.pop_back();
    for (; folder.size() > root; folder.resize(std::max(root, folder.rfind('/')))) folders.push_back(folder);
    folders.push_back(folder);
  }
  return folders;
}

/// Returns the first number of a file. Returns nothing without a file, and for the word "max".
std::optional<double> number_in(const std::string& file) {
  const std::string text = text_of(file);
  std::string_view left = text;
  return number(take(left, " \n"));
}

/// Returns the number behind `name` in a file of lines "name number", or 0.
double number_after(const std::string& file, std::string_view name) {
  const std::string text = text_of(file);
  std::string_view left = text;
  for (std::string_view line; !(line = take(left, "\n")).empty();) {
    if (take(line, " ") == name) return number(take(line, " ")).value_or(0);
  }
  return 0;
}

void take_least(CpuQuota& least, const std::string& group, std::optional<double> quota, std::optional<double> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return;
  const double processors = *quota / *period;
  if (least.processors > 0 && least.processors <= processors) return;
  Fingerprint name;
  name.add(group);
  least = {processors, name.value()};
}

}  // namespace

CpuQuota cpu_quota(const GroupFiles& files) {
  CpuQuota least;
  for (const std::string& group : groups(files, "")) {
    const std::string text = text_of(group + "/cpu.max");  // "max 100000" or "150000 100000"
    std::string_view left = text;
    const std::optional<double> quota = number(take(left, " \n"));
    take_least(least, group, quota, number(take(left, " \n")));
  }
  for (const std::string& group : groups(files, "cpu"))
    take_least(least, group, number_in(group + "/cpu.cfs_quota_us"), number_in(group + "/cpu.cfs_period_us"));
  return least;
}

double room_in_groups(const GroupFiles& files) {
  double least = std::numeric_limits<double>::infinity();
  const auto look = [&](const std::string& group, const char* limit, const char* in_use, const char* given_back) {
    const std::optional<double> most = number_in(group + "/" + limit);
    if (!most) return;
    const double used = number_in(group + "/" + in_use).value_or(0) - number_after(group + "/memory.stat", given_back);
    least = std::min(least, std::max(0.0, *most - std::max(0.0, used)));
  };
  for (const std::string& group : groups(files, "")) look(group, "memory.max", "memory.current", "inactive_file");
  for (const std::string& group : groups(files, "memory"))
    look(group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  return least;
}

}  // namespace weir
