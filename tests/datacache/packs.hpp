// packs.hpp: made-up data sets for tests of level 1. A sample's number determines its bytes.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/splitmix.hpp"
#include "datacache/pack_folder.hpp"

namespace weir::test {

using datacache::CacheFolder;
using datacache::DataSet;
using datacache::PackFolder;
using datacache::Samples;

/// A data set with samples of up to `largest` bytes; some are empty.
struct MadeUp {
  DataSet set{.name = "made-up", .identity = "made up", .samples = 20, .pack_samples = 4};
  std::int64_t largest = 50;

  [[nodiscard]] std::vector<std::byte> sample(std::int64_t number) const {
    std::uint64_t state = set.fingerprint() + static_cast<std::uint64_t>(number) * 1000003;
    const auto word = [&] { return static_cast<std::uint64_t>(splitmix64(state++)); };
    std::vector<std::byte> bytes(word() % 5 == 0 ? 0 : word() % static_cast<std::uint64_t>(largest + 1));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(word());
    return bytes;
  }
  [[nodiscard]] Samples pack(std::int64_t number) const {
    Samples samples;
    for (std::int64_t i = 0; i < set.samples_of(number); ++i) {
      const std::vector<std::byte> bytes = sample(number * set.pack_samples + i);
      samples.bytes.insert(samples.bytes.end(), bytes.begin(), bytes.end());
      samples.sizes.push_back(static_cast<std::int64_t>(bytes.size()));
    }
    return samples;
  }
  /// Returns the bytes that the file of pack `number` takes.
  [[nodiscard]] std::int64_t file_bytes(std::int64_t number) const {
    return datacache::pack_header_bytes(set.samples_of(number)) + static_cast<std::int64_t>(pack(number).bytes.size());
  }
  /// Returns the bytes that the files of all packs take.
  [[nodiscard]] std::int64_t file_bytes() const {
    std::int64_t sum = 0;
    for (std::int64_t pack = 0; pack < set.packs(); ++pack) sum += file_bytes(pack);
    return sum;
  }
  [[nodiscard]] std::string path_of(const std::string& folder, std::int64_t pack) const {
    return folder + "/" + set.name + "/" + datacache::pack_name(pack);
  }
};

inline bool same(const Samples& a, const Samples& b) { return a.bytes == b.bytes && a.sizes == b.sizes; }

/// Calls obtain() with the source's samples.
inline Samples obtain(PackFolder& folder, const MadeUp& data, std::int64_t pack, int* fetches = nullptr) {
  return folder.obtain(pack, [&] {
    if (fetches != nullptr) ++*fetches;
    return data.pack(pack);
  });
}

/// Returns the number of samples of the pack that are there. Sets `right` to false if one has wrong bytes.
inline std::int64_t there(PackFolder& folder, const MadeUp& data, std::int64_t pack, bool& right) {
  std::int64_t found = 0;
  std::vector<std::byte> encoded{std::byte{1}};
  for (std::int64_t i = 0; i < data.set.samples_of(pack); ++i) {
    const std::int64_t sample = pack * data.set.pack_samples + i;
    if (!folder.read(sample, encoded)) continue;
    right = right && encoded == data.sample(sample);
    ++found;
  }
  return found;
}

/// Returns the names and bytes of all files pack-* and .pack-* of all data sets.
inline std::map<std::string, std::int64_t> pack_files(const std::string& folder) {
  std::map<std::string, std::int64_t> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_symlink() && entry.is_regular_file() && (name.starts_with("pack-") || name.starts_with(".pack-")))
      found[std::filesystem::relative(entry.path(), folder).string()] = static_cast<std::int64_t>(entry.file_size());
  }
  return found;
}
inline std::int64_t bytes_on_disk(const std::string& folder) {
  std::int64_t sum = 0;
  for (const auto& [name, bytes] : pack_files(folder)) sum += bytes;
  return sum;
}
inline std::set<std::int64_t> packs_of(const std::string& folder, const MadeUp& data) {
  std::set<std::int64_t> packs;
  for (std::int64_t pack = 0; pack < data.set.packs(); ++pack) {
    if (std::filesystem::exists(data.path_of(folder, pack))) packs.insert(pack);
  }
  return packs;
}

/// Makes a file look as if it had last been used `seconds` seconds earlier.
inline void age(const std::string& path, std::int64_t seconds) {
  struct stat status {};
  stat(path.c_str(), &status);
  const timespec then{status.st_mtim.tv_sec - seconds, status.st_mtim.tv_nsec};
  utimensat(AT_FDCWD, path.c_str(), std::array{then, then}.data(), 0);
}
/// Ages all pack files of the folder.
inline void age_all(const std::string& folder, std::int64_t seconds) {
  for (const auto& [name, bytes] : pack_files(folder)) age(folder + "/" + name, seconds);
}

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void set_contents(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

/// Returns the text of the Error that the call throws, or "" if it throws nothing.
template <class Call>
std::string error_of(Call&& call, weir_status status) {
  try {
    call();
  } catch (const Error& error) {
    return error.status() == status ? error.what() : std::string("another status: ") + error.what();
  }
  return "";
}

/// Collects Weir's log messages as long as it lives.
class LogLines {
 public:
  LogLines() {
    set_log_function([this](LogLevel, std::string_view text) { lines.emplace_back(text); });
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;
  ~LogLines() { set_log_function({}); }
  [[nodiscard]] std::string all() const {
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    return text;
  }
  std::vector<std::string> lines{};
};

}  // namespace weir::test
