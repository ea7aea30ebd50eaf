#include "checkpoint/folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/file.hpp"

namespace weir::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view first = "checkpoint-", last = ".h5";

/// Returns the step in the name of a complete file. Returns nothing for any other name.
std::optional<std::int64_t> step_in(std::string_view name) {
  if (!name.starts_with(first) || !name.ends_with(last) || name.size() <= first.size() + last.size()) return {};
  const std::string_view digits = name.substr(first.size(), name.size() - first.size() - last.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool plain = error == std::errc() && end == digits.data() + digits.size() && step >= 0 && fmt::format("{}", step) == digits;
  return plain ? std::optional(step) : std::nullopt;
}

/// Adds the folder's name to the error of a system call.
template <class Do>
auto in_folder(const std::string& folder, Do&& run) {
  try {
    return run();
  } catch (const fs::filesystem_error& error) {
    fail(WEIR_ERR_FILE, "checkpoint folder {}: {}", folder, error.code().message());
  }
}

}  // namespace

FolderLock::FolderLock(const std::string& folder)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      refused_(folder_ && ::flock(*folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {}

Folder::Folder(std::string path) : path_(std::move(path)) {}

std::string Folder::file_of(std::int64_t step) const { return fmt::format("{}/{}{}{}", path_, first, step, last); }
std::string Folder::unfinished_of(std::int64_t step) const { return fmt::format("{}/.{}{}{}", path_, first, step, last); }

std::vector<std::int64_t> Folder::steps() const {
  return in_folder(path_, [&] {
    std::vector<std::int64_t> steps;
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      std::error_code gone;
      if (!entry.is_regular_file(gone)) continue;
      if (const auto step = step_in(entry.path().filename().string())) steps.push_back(*step);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
  });
}

std::optional<std::int64_t> Folder::newest() const {
  const std::vector<std::int64_t> all = steps();
  for (const std::int64_t step : manifest_steps()) {
    if (std::binary_search(all.begin(), all.end(), step)) return step;
  }
  return all.empty() ? std::nullopt : std::optional(all.back());
}

std::vector<std::int64_t> Folder::newest_first() const {
  const std::optional<std::int64_t> first = newest();
  std::vector<std::int64_t> all = steps();
  std::erase_if(all, [&](std::int64_t step) { return !first || step > *first; });
  std::reverse(all.begin(), all.end());
  return all;
}

std::optional<std::int64_t> Folder::lost() const {
  const std::vector<std::int64_t> named = manifest_steps(), all = steps();
  if (named.empty() || std::binary_search(all.begin(), all.end(), named.front())) return {};
  return named.front();
}

std::vector<std::int64_t> Folder::manifest_steps() const {
  const std::string path = path_ + "/manifest.json";
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return {};
  std::ifstream file(path);
  const auto json = JsonValue::parse_if_whole(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!json) return {};
  std::vector<std::int64_t> found;
  for (const char* key : {"newest", "previous"}) {
    const auto name = json->view().find(key);
    if (!name || !name->is_string()) continue;
    if (const auto step = step_in(name->string())) found.push_back(*step);
  }
  return found;
}

std::vector<std::string> Folder::left_overs() const {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    const std::string name = entry.path().filename().string();
    if (name == ".manifest.json" || (name.starts_with('.') && step_in(name.substr(1)))) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void Folder::prepare() const {
  in_folder(path_, [&] {
    if (!fs::exists(path_)) {
      const fs::path parent = fs::absolute(fs::path(path_) / "").parent_path().parent_path();
      if (!fs::is_directory(parent))
        fail(WEIR_ERR_FILE, "checkpoint folder {} cannot be made: there is no folder {}", path_, parent.string());
      fs::create_directory(path_);
    }
    if (!fs::is_directory(path_)) fail(WEIR_ERR_FILE, "checkpoint folder {} is no folder", path_);
    if (FolderLock(path_).refused()) return;
    std::error_code read_only;  // a run may restore from a folder that it cannot write to
    for (const std::string& file : left_overs()) fs::remove(file, read_only);
    if (manifest_steps().empty() && newest() && ::access(path_.c_str(), W_OK) == 0) write_manifest(*newest());
  });
}

void Folder::publish(std::int64_t step, std::int64_t keep) const {
  limit_others(step, keep);  // otherwise runs that are killed before the last line would leave more and more files
  // Write the manifest first: if interrupted before the rename, the previous file is still the newest that exists.
  write_manifest(step);
  rename_for_good(unfinished_of(step), file_of(step));
  limit_others(step, keep - 1);
}

void Folder::limit_others(std::int64_t step, std::int64_t most) const {
  in_folder(path_, [&] {
    std::vector<std::int64_t> others = steps();
    std::erase(others, step);
    const auto kept = static_cast<std::size_t>(most);
    if (others.size() <= kept) return;
    // Remove later steps first: the run has gone back and no longer needs them.
    std::stable_partition(others.begin(), others.end(), [&](std::int64_t other) { return other > step; });
    for (const std::int64_t old : std::span(others).first(others.size() - kept)) fs::remove(file_of(old));
  });
}

void Folder::write_manifest(std::int64_t step) const {
  const std::string aside = path_ + "/.manifest.json";
  const auto name_of = [&](std::int64_t s) { return fs::path(file_of(s)).filename().string(); };
  JsonValue json{{"newest", name_of(step)}};
  if (const auto previous = newest(); previous && *previous != step) json.set("previous", name_of(*previous));
  const std::string text = json.text(2) + "\n";
  File file = File::create(aside);
  file.write_at(0, std::as_bytes(std::span(text)));
  file.sync();
  file.close();
  rename_for_good(aside, path_ + "/manifest.json");
}

void Folder::give_up(std::int64_t step) const noexcept { ::unlink(unfinished_of(step).c_str()); }

}  // namespace weir::checkpoint
