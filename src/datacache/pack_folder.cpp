#include "datacache/pack_folder.hpp"

#include <fcntl.h>

#include <cerrno>
#include <random>

#include "base/error.hpp"
#include "base/log.hpp"

namespace weir::datacache {

PackFolder::PackFolder(const std::string& folder, std::int64_t limit, DataSet set, LogLevel log, std::chrono::milliseconds patience)
    : folder_(folder, {.limit = limit, .log = log, .patience = patience}),
      set_(std::move(set)),
      fingerprint_(set_.fingerprint()),
      set_folder_(folder_.make_data_set(set_)) {}

void PackFolder::claim(std::int64_t first, std::int64_t end) {
  for (const CacheFile& file : folder_.look().packs) {
    if (file.data_set == set_.name && file.pack >= first && file.pack < end) touch_in(set_folder_, file.name);
  }
}

template <class Read>
bool PackFolder::read_pack(std::int64_t pack, Read&& read) {
  const std::string name = pack_name(pack);
  Descriptor file = open_in(set_folder_, name, O_RDONLY);
  const auto status = file ? status_of(file) : std::nullopt;
  if (!status) return false;
  if (const auto open = PackFile::open(std::move(file), status->bytes, key_of(pack)); open && read(*open)) {
    if (status->used < folder_.made_at()) touch(open->file());
    return true;
  }
  ++counts_.damaged;
  const bool removed = folder_.remove(CacheFile{set_.name, name, pack, *status});
  if (!said_damaged_.exchange(true))
    log(folder_.options().log, LogLevel::warn, "sample cache folder {}: {}/{} is damaged, and {}: its samples come from the store",
        folder_.path(), set_.name, name, removed ? "removed" : "cannot be removed");
  return false;
}

bool PackFolder::read(std::int64_t sample, std::vector<std::byte>& encoded) {
  require(sample >= 0 && sample < set_.samples, "there is no sample {}: there are {}", sample, set_.samples);
  encoded.clear();
  const bool found =
      read_pack(sample / set_.pack_samples, [&](const PackFile& file) { return file.read(sample % set_.pack_samples, encoded); });
  if (found) counts_.bytes_read += static_cast<std::int64_t>(encoded.size());
  return found;
}

Samples PackFolder::obtain(std::int64_t pack, const std::function<Samples()>& fetch) {
  require(pack >= 0 && pack < set_.packs(), "there is no pack {}: there are {}", pack, set_.packs());
  const std::optional<Unfinished> unfinished = begin(pack);
  Samples samples;
  try {
    if (read_pack(pack, [&](const PackFile& file) { return file.read_all(samples); })) {  // fetched meanwhile by another
      counts_.bytes_read += static_cast<std::int64_t>(samples.bytes.size());
      if (unfinished) folder_.discard(set_folder_, unfinished->name, unfinished->file);
      return samples;
    }
    samples = fetch();
    check(pack, samples);
  } catch (...) {
    if (unfinished) folder_.discard(set_folder_, unfinished->name, unfinished->file);
    throw;
  }
  if (unfinished) keep(pack, *unfinished, samples);
  return samples;
}

std::optional<PackFolder::Unfinished> PackFolder::begin(std::int64_t pack) {
  std::string name = "." + pack_name(pack);
  if (!folder_.has_locks()) {
    std::random_device random;
    name += fmt::format(".{:08x}{:08x}", random(), random());
  }
  for (int i = 0; i < most_tries; ++i) {
    Descriptor file = open_in(set_folder_, name, O_RDWR | O_CREAT);
    const Locked locked = file ? lock(file, LockKind::exclusive, folder_.options().patience) : Locked::elsewhere;
    if (!file || locked == Locked::elsewhere) {
      not_kept(Reserved::failed);
      return {};
    }
    // The process that had it locked has finished it, or given it up.
    if (locked == Locked::yes && !is_named(set_folder_, name, file)) continue;
    return Unfinished{std::move(file), std::move(name)};
  }
  errno = ESTALE;
  not_kept(Reserved::failed);
  return {};
}

void PackFolder::keep(std::int64_t pack, const Unfinished& unfinished, const Samples& samples) {
  const std::vector<std::byte> header = pack_header(key_of(pack), samples);
  const auto header_bytes = static_cast<std::int64_t>(header.size());
  const Reserved reserved = folder_.reserve(unfinished.file, header_bytes + static_cast<std::int64_t>(samples.bytes.size()));
  if (reserved == Reserved::yes && write_at(unfinished.file, 0, header) && write_at(unfinished.file, header_bytes, samples.bytes) &&
      folder_.publish(set_folder_, unfinished.name, unfinished.file, pack))
    return;
  const int error = errno;
  folder_.discard(set_folder_, unfinished.name, unfinished.file);
  errno = error;
  not_kept(reserved);
}

void PackFolder::not_kept(Reserved reserved) {
  const int error = errno;
  keeps_from_ = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  const CacheFolder::Options& options = folder_.options();
  if (reserved == Reserved::no_room) {
    if (!said_full_.exchange(true))
      log(options.log, LogLevel::info,
          "sample cache folder {}: its limit of {} bytes is taken by packs that are in use: further ones of '{}' are not kept",
          folder_.path(), options.limit, set_.name);
  } else if (!said_not_kept_.exchange(true)) {
    log(options.log, LogLevel::warn,
        "sample cache folder {}: samples of '{}' cannot be kept, and are read from the store each time: {}", folder_.path(),
        set_.name, trouble(error));
  }
}

bool PackFolder::keeps() const { return std::chrono::steady_clock::now() >= keeps_from_.load(); }

void PackFolder::check(std::int64_t pack, const Samples& samples) const {
  const std::int64_t count = set_.samples_of(pack);
  auto left = static_cast<std::int64_t>(samples.bytes.size());
  bool fits = static_cast<std::int64_t>(samples.sizes.size()) == count;
  for (const std::int64_t size : samples.sizes) {
    fits = fits && size >= 0 && size <= left;
    left -= fits ? size : 0;
  }
  require(fits && left == 0, "pack {} of '{}': the source has read {} bytes for {} samples, and its {} sizes do not add up to that",
          pack, set_.name, samples.bytes.size(), count, samples.sizes.size());
}

}  // namespace weir::datacache
