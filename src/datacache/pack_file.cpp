#include "datacache/pack_file.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstring>

namespace weir::datacache {
namespace {

constexpr std::array<char, 8> magic = {'w', 'e', 'i', 'r', 'p', 'a', 'c', 'k'};
constexpr std::int64_t version = 1;

/// The beginning of the header.
struct Front {
  std::array<char, 8> magic{};
  std::int64_t version = 0;
  std::uint64_t data_set = 0;
  std::int64_t number = 0, samples = 0;

  [[nodiscard]] bool operator==(const Front&) const = default;
};

constexpr std::int64_t front_bytes = sizeof(Front), entry_bytes = 16, seal_bytes = sizeof(std::uint64_t);
static_assert(front_bytes == 40);

Front front_of(const PackKey& key) { return {magic, version, key.data_set, key.number, key.samples}; }

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

std::int64_t pack_header_bytes(std::int64_t samples) { return front_bytes + samples * entry_bytes + seal_bytes; }

std::vector<std::byte> pack_header(const PackKey& key, const Samples& samples) {
  std::vector<std::byte> header(static_cast<std::size_t>(pack_header_bytes(key.samples)));
  std::byte* at = header.data();
  const auto append = [&](const auto& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  append(front_of(key));
  std::span<const std::byte> rest(samples.bytes);
  for (const std::int64_t bytes : samples.sizes) {
    append(bytes);
    append(checksum(rest.first(static_cast<std::size_t>(bytes))));
    rest = rest.subspan(static_cast<std::size_t>(bytes));
  }
  append(checksum({header.data(), at}));
  return header;
}

std::optional<PackFile> PackFile::open(Descriptor file, std::int64_t bytes, const PackKey& key) {
  static_assert(sizeof(Entry) == entry_bytes);
  const std::int64_t header_bytes = pack_header_bytes(key.samples);
  if (bytes < header_bytes) return {};
  std::vector<std::byte> header(static_cast<std::size_t>(header_bytes));
  if (!read_at(file, 0, header)) return {};
  Front front;
  std::memcpy(&front, header.data(), sizeof front);
  std::uint64_t seal = 0;
  const std::size_t sealed = header.size() - sizeof seal;
  std::memcpy(&seal, header.data() + sealed, sizeof seal);
  if (front != front_of(key) || seal != checksum(std::span(header).first(sealed))) return {};

  PackFile pack;
  pack.entries_.resize(static_cast<std::size_t>(key.samples));
  if (key.samples > 0) std::memcpy(pack.entries_.data(), header.data() + front_bytes, pack.entries_.size() * sizeof(Entry));
  std::int64_t left = bytes - header_bytes;
  for (const Entry& entry : pack.entries_) {
    if (entry.bytes < 0 || entry.bytes > left) return {};
    left -= entry.bytes;
  }
  if (left != 0) return {};
  pack.file_ = std::move(file);
  return pack;
}

bool PackFile::read(std::int64_t i, std::vector<std::byte>& sample) const {
  std::int64_t address = pack_header_bytes(static_cast<std::int64_t>(entries_.size()));
  for (std::int64_t before = 0; before < i; ++before) address += entries_[static_cast<std::size_t>(before)].bytes;
  const Entry& entry = entries_[static_cast<std::size_t>(i)];
  sample.resize(static_cast<std::size_t>(entry.bytes));
  if (read_at(file_, address, sample) && checksum(sample) == entry.checksum) return true;
  sample.clear();
  return false;
}

bool PackFile::read_all(Samples& samples) const {
  std::int64_t bytes = 0;
  samples.sizes.clear();
  for (const Entry& entry : entries_) {
    samples.sizes.push_back(entry.bytes);
    bytes += entry.bytes;
  }
  samples.bytes.resize(static_cast<std::size_t>(bytes));
  if (!read_at(file_, pack_header_bytes(static_cast<std::int64_t>(entries_.size())), samples.bytes)) return false;
  std::span<const std::byte> rest(samples.bytes);
  for (const Entry& entry : entries_) {
    const auto own = static_cast<std::size_t>(entry.bytes);
    if (checksum(rest.first(own)) != entry.checksum) return false;
    rest = rest.subspan(own);
  }
  return true;
}

}  // namespace weir::datacache
