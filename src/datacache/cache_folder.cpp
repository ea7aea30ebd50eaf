#include "datacache/cache_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <tuple>

#include "base/error.hpp"
#include "base/log.hpp"

namespace weir::datacache {
namespace {

namespace fs = std::filesystem;

constexpr const char* usage_name = ".weir-cache";
constexpr std::string_view pack_start = "pack-", usage_start = "weir-cache 1 ";
constexpr std::size_t usage_length = usage_start.size() + 20 + 1;  // digits, end of line
constexpr std::chrono::seconds full_for{10};
constexpr std::int64_t dead_after = 3'600'000'000'000;  // ns without a write; counts if there are no locks

std::optional<std::int64_t> number_in(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool plain =
      error == std::errc() && end == digits.data() + digits.size() && number >= 0 && fmt::format("{}", number) == digits;
  return plain ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> pack_in(std::string_view name) {
  return name.starts_with(pack_start) ? number_in(name.substr(pack_start.size())) : std::nullopt;
}

/// Without locks, each writer uses its own name: .pack-NUMBER.ANYTHING.
std::optional<std::int64_t> unfinished_in(std::string_view name) {
  return name.starts_with('.') ? pack_in(name.substr(1, name.find('.', 1) - 1)) : std::nullopt;
}

[[noreturn]] void fail_with(const std::string& path, std::string_view doing, int error) {
  fail(WEIR_ERR_FILE, "sample cache folder {}: {}: {}", path, doing, reason(error));
}

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Returns the names in a folder, sorted. Returns an empty list if the folder cannot be read.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (fs::directory_iterator at(path, ignored), end; !ignored && at != end; at.increment(ignored))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

std::string pack_name(std::int64_t number) { return fmt::format("{}{}", pack_start, number); }

std::int64_t CacheContents::bytes() const {
  std::int64_t sum = 0;
  for_each([&](const CacheFile& file) { sum += file.status.bytes; });
  return sum;
}

/// Keeps all others from changing the folder's packs while this object lives.
class CacheFolder::Usage {
 public:
  Usage(std::unique_lock<std::mutex> threads, Descriptor file) : threads_(std::move(threads)), file_(std::move(file)) {
    std::string text(usage_length, '\0');
    std::int64_t bytes = 0;
    if (!read_at(file_, 0, std::as_writable_bytes(std::span(text))) || !text.starts_with(usage_start)) return;
    const char *first = text.data() + usage_start.size(), *last = text.data() + text.size() - 1;
    const auto [end, error] = std::from_chars(first, last, bytes);
    if (error == std::errc() && end == last && bytes >= 0) bytes_ = bytes;
  }
  [[nodiscard]] bool known() const { return bytes_ >= 0; }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// Writes the count. Empties the file if that fails: the next Usage then finds no count, and counts the packs again.
  void set(std::int64_t bytes) {
    bytes_ = std::max<std::int64_t>(0, bytes);
    const std::string text = fmt::format("{}{:020}\n", usage_start, bytes_);
    if (!write_at(file_, 0, std::as_bytes(std::span(text)))) (void)!::ftruncate(*file_, 0);
  }
  [[nodiscard]] const Descriptor& file() const { return file_; }

 private:
  std::unique_lock<std::mutex> threads_;
  Descriptor file_;
  std::int64_t bytes_ = -1;
};

std::string trouble(int error) { return error == EWOULDBLOCK ? "another process keeps it locked: is it stopped?" : reason(error); }

CacheFolder::CacheFolder(const std::string& path, const Options& options) : path_(fs::absolute(path).string()), options_(options) {
  if (::mkdir(path_.c_str(), 0777) != 0 && errno != EEXIST) {
    const int error = errno;
    const fs::path parent = fs::path(path_ + "/").parent_path().parent_path();
    if (error == ENOENT)
      fail(WEIR_ERR_FILE, "sample cache folder {} cannot be made: there is no folder {}", path_, parent.string());
    fail_with(path_, "it cannot be made", error);
  }
  folder_ = open_folder(path_);
  if (!folder_) fail_with(path_, "it cannot be opened", errno);
  Usage usage = change_or_throw();
  // Every process that works with the folder has counted it, or has waited here for one that did. If a process dies meanwhile, the
  // count is too high, not too low. Packs are counted again before any are evicted.
  if (lock(folder_, LockKind::exclusive, {}) != Locked::elsewhere) (void)clean(usage);
  (void)lock(folder_, LockKind::shared, options_.patience);
  touch(usage.file());
  const auto touched = status_of(usage.file());
  made_at_ = touched ? touched->used : now();
  (void)make_room(usage, 0);
}

CacheFolder::CacheFolder(const std::string& path) : path_(fs::absolute(path).string()), folder_(open_folder(path_)) {
  if (!folder_) fail_with(path_, "it cannot be opened", errno);
  if (!status_in(folder_, usage_name)) fail(WEIR_ERR_FILE, "folder {} is no sample cache: it has no file {}", path_, usage_name);
}

std::optional<CacheFolder::Usage> CacheFolder::change() {
  std::unique_lock threads(mutex_);
  for (int i = 0; i < most_tries; ++i) {
    Descriptor file = open_in(folder_, usage_name, O_RDWR | O_CREAT);
    if (!file) return {};
    const Locked locked = lock(file, LockKind::exclusive, impatient_ ? std::chrono::milliseconds(0) : options_.patience);
    impatient_ = locked == Locked::elsewhere;
    if (locked == Locked::elsewhere) {
      errno = EWOULDBLOCK;
      return {};
    }
    if (locked == Locked::unsupported && has_locks_.exchange(false))
      log(options_.log, LogLevel::warn,
          "sample cache folder {}: its file system has no locks ({}): processes may read the same samples from the store, and its "
          "limit "
          "may be exceeded",
          path_, reason(errno));
    if (locked == Locked::yes && !is_named(folder_, usage_name, file)) continue;
    Usage usage(std::move(threads), std::move(file));
    if (!usage.known()) (void)clean(usage);
    return usage;
  }
  errno = ESTALE;
  return {};
}

CacheFolder::Usage CacheFolder::change_or_throw() {
  std::optional<Usage> usage = change();
  const int error = errno;
  if (!usage) fail(WEIR_ERR_FILE, "sample cache folder {}: {}: {}", path_, usage_name, trouble(error));
  return std::move(*usage);
}

Descriptor CacheFolder::make_data_set(const DataSet& set) {
  require(is_data_set_name(set.name),
          "'{}' is no name of a data set: 1 to 64 letters, digits, '_', '-' and '.', and the first is no '.'", set.name);
  Usage usage = change_or_throw();
  if (::mkdirat(*folder_, set.name.c_str(), 0777) != 0 && errno != EEXIST)
    fail_with(path_, fmt::format("folder {} cannot be made", set.name), errno);
  Descriptor folder = open_data_set(set.name);
  if (!folder) fail_with(path_, fmt::format("folder {} cannot be opened", set.name), errno);
  const std::optional<Manifest> found = read_manifest(folder);
  if (!found) {
    if (!write_manifest(folder, set)) fail_with(path_, fmt::format("{}/{} cannot be written", set.name, manifest_name), errno);
    (void)clean(usage);  // existing packs of the folder count from now on
    return folder;
  }
  const auto remedy = [&] {
    return fmt::format("`weir cache prune {} --dataset {}` removes it, and another name leaves it there", path_, set.name);
  };
  if (found->version != manifest_version)
    fail(WEIR_ERR_MISMATCH, "sample cache folder {}: '{}' has version {}, and this library reads version {}: {}", path_, set.name,
         found->version, manifest_version, remedy());
  if (found->fingerprint != set.fingerprint())
    fail(WEIR_ERR_MISMATCH,
         "sample cache folder {}: '{}' has other data: {}. There: {} samples in packs of {}, \"{}\"; here: {} samples in packs of "
         "{}, \"{}\"",
         path_, set.name, remedy(), found->set.samples, found->set.pack_samples, found->set.identity, set.samples, set.pack_samples,
         set.identity);
  return folder;
}

bool CacheFolder::make_room(Usage& usage, std::int64_t bytes) {
  const std::int64_t limit = options_.limit;
  if (limit == 0) return true;
  if (bytes > limit) return false;
  bool looked = false;
  while (usage.bytes() > limit - bytes) {
    if (oldest_.empty()) {
      const auto time = std::chrono::steady_clock::now();
      if (looked || time < full_until_) return false;
      looked = true;
      full_until_ = time + full_for;
      // Treat times in the future as oldest: they come from a wrong clock, and such packs would stay for long.
      const std::int64_t present = now();
      const auto age = [&](const CacheFile& pack) { return pack.status.used > present ? 0 : pack.status.used; };
      oldest_ = clean(usage).first.packs;
      std::erase_if(oldest_, [&](const CacheFile& pack) { return age(pack) >= made_at_; });
      std::stable_sort(oldest_.begin(), oldest_.end(), [&](const CacheFile& a, const CacheFile& b) { return age(a) > age(b); });
      continue;
    }
    remove(usage, oldest_.back());
    oldest_.pop_back();
  }
  return true;
}

Reserved CacheFolder::reserve(const Descriptor& file, std::int64_t bytes) {
  std::optional<Usage> usage = change();
  const auto status = usage ? status_of(file) : std::nullopt;
  if (!status) return Reserved::failed;
  const std::int64_t more = bytes - status->bytes;
  if (bytes > options_.limit && options_.limit != 0) return Reserved::no_room;
  if (!make_room(*usage, more)) return Reserved::no_room;
  const std::int64_t before = usage->bytes();
  usage->set(before + more);  // first: if the process is stopped here, the count is too high
  if (::ftruncate(*file, bytes) == 0) return Reserved::yes;
  const int error = errno;
  usage->set(before);
  errno = error;
  return Reserved::failed;
}

bool CacheFolder::publish(const Descriptor& data_set, const std::string& unfinished, const Descriptor& file, std::int64_t pack) {
  std::optional<Usage> usage = change();
  if (!usage) return false;
  if (!is_named(data_set, unfinished, file)) {
    errno = ENOENT;
    return false;
  }
  const std::string name = pack_name(pack);
  const auto replaced = status_in(data_set, name);  // only possible without locks
  if (::renameat(*data_set, unfinished.c_str(), *data_set, name.c_str()) != 0) return false;
  if (replaced) usage->set(usage->bytes() - replaced->bytes);
  return true;
}

void CacheFolder::discard(const Descriptor& data_set, const std::string& unfinished, const Descriptor& file) {
  std::optional<Usage> usage = change();
  const auto status = status_of(file);
  if (!status || !is_named(data_set, unfinished, file) || ::unlinkat(*data_set, unfinished.c_str(), 0) != 0) return;
  if (usage) usage->set(usage->bytes() - status->bytes);
}

bool CacheFolder::remove(Usage& usage, const CacheFile& file) {
  const Descriptor folder = open_data_set(file.data_set);
  if (!folder || status_in(folder, file.name) != file.status || ::unlinkat(*folder, file.name.c_str(), 0) != 0) return false;
  usage.set(usage.bytes() - file.status.bytes);
  return true;
}

bool CacheFolder::remove(const CacheFile& file) {
  std::optional<Usage> usage = change();
  return usage && remove(*usage, file);
}

bool CacheFolder::remove_if_left_over(const CacheFile& file) const {
  const Descriptor folder = open_data_set(file.data_set);
  const Descriptor open = folder ? open_in(folder, file.name, O_RDONLY) : Descriptor();
  if (!open) return false;
  const Locked locked = lock(open, LockKind::exclusive, {});
  if (locked == Locked::elsewhere || (locked == Locked::unsupported && file.status.used > now() - dead_after)) return false;
  // A process that has opened the file to write, and waits for the lock, will see that the name is gone.
  return is_named(folder, file.name, open) && ::unlinkat(*folder, file.name.c_str(), 0) == 0;
}

std::pair<CacheContents, std::vector<std::int64_t>> CacheFolder::clean(Usage& usage) {
  CacheContents there = look();
  std::vector<std::int64_t> removed;
  std::erase_if(there.unfinished, [&](const CacheFile& file) {
    if (!remove_if_left_over(file)) return false;
    removed.push_back(file.status.bytes);
    return true;
  });
  usage.set(there.bytes());
  return {std::move(there), std::move(removed)};
}

std::vector<std::int64_t> CacheFolder::remove_left_overs() {
  Usage usage = change_or_throw();
  return clean(usage).second;
}

std::int64_t CacheFolder::remove_data_set(const std::string& name) {
  Usage usage = change_or_throw();
  const Descriptor folder = open_data_set(name);
  if (!folder) fail_with(path_, fmt::format("folder {} cannot be opened", name), errno);
  std::int64_t removed = 0;
  look().for_each([&](const CacheFile& file) {
    if (file.data_set != name) return;
    if (::unlinkat(*folder, file.name.c_str(), 0) != 0 && errno != ENOENT)
      fail_with(path_, fmt::format("{}/{} cannot be removed", name, file.name), errno);
    usage.set(usage.bytes() - file.status.bytes);
    removed += file.status.bytes;
  });
  // Last: without a manifest, no data set would count the packs.
  for (const char* file : {unfinished_manifest_name, manifest_name}) ::unlinkat(*folder, file, 0);
  ::unlinkat(*folder_, name.c_str(), AT_REMOVEDIR);
  return removed;
}

CacheContents CacheFolder::look() const {
  CacheContents there;
  for (const std::string& name : names_in(path_)) {
    const Descriptor folder = is_data_set_name(name) ? open_data_set(name) : Descriptor();
    const auto manifest = folder ? status_in(folder, manifest_name) : std::nullopt;
    if (!manifest || !manifest->regular) continue;
    there.data_sets.push_back(name);
    for (const std::string& file : names_in(path_ + "/" + name)) {
      const std::optional<std::int64_t> pack = pack_in(file), unfinished = unfinished_in(file);
      const auto status = pack || unfinished ? status_in(folder, file) : std::nullopt;
      if (!status || !status->regular) continue;
      (pack ? there.packs : there.unfinished).push_back({name, file, pack ? *pack : *unfinished, *status});
    }
  }
  const auto by_place = [](const CacheFile& a, const CacheFile& b) {
    return std::tie(a.data_set, a.pack) < std::tie(b.data_set, b.pack);
  };
  std::sort(there.packs.begin(), there.packs.end(), by_place);
  return there;
}

bool CacheFolder::in_use() const {
  const Descriptor again = open_folder(path_);
  return again && lock(again, LockKind::exclusive, {}) == Locked::elsewhere;
}

std::int64_t CacheFolder::usage() { return change_or_throw().bytes(); }

}  // namespace weir::datacache
