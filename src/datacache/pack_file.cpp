#include "datacache/pack_file.hpp"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/json.hpp"

namespace weir::datacache {
namespace {

/// The beginning of the header.
struct Front {
  std::array<char, 8> magic = {'w', 'e', 'i', 'r', 'p', 'a', 'c', 'k'};
  std::int64_t version = 1;
  PackKey key;
};

constexpr std::int64_t front_bytes = sizeof(Front), entry_bytes = 16, seal_bytes = sizeof(std::uint64_t);
static_assert(front_bytes == 40);

constexpr std::int64_t longest_manifest = 1 << 24;  // no intact one is longer

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

std::int64_t DataSet::samples_of(std::int64_t pack) const { return std::min(pack_samples, samples - pack * pack_samples); }

std::uint64_t DataSet::fingerprint() const {
  const std::string all = fmt::format("{} {} {}", samples, pack_samples, identity);
  return checksum(std::as_bytes(std::span(all)));
}

bool is_data_set_name(std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name.find_first_not_of(allowed) == std::string_view::npos;
}

std::optional<Manifest> read_manifest(const Descriptor& folder) {
  const Descriptor file = open_in(folder, manifest_name, O_RDONLY);
  const auto status = file ? status_of(file) : std::nullopt;
  if (!status || !status->regular || status->bytes > longest_manifest) return {};
  std::string text(static_cast<std::size_t>(status->bytes), '\0');
  if (!read_at(file, 0, std::as_writable_bytes(std::span(text)))) return {};
  try {
    const JsonValue whole = JsonValue::parse(text);
    const JsonView json = whole.view();
    Manifest found;
    json.at("version").to(found.version);
    if (found.version != manifest_version) return found;  // other versions may have other fields
    json.at("name").to(found.set.name);
    json.at("identity").to(found.set.identity);
    json.at("samples").to(found.set.samples);
    json.at("pack_samples").to(found.set.pack_samples);
    found.fingerprint = std::stoull(json.at("fingerprint").string(), nullptr, 16);
    if (found.set.samples < 0 || found.set.pack_samples < 1) return {};
    return found;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    return {};
  }
}

bool write_manifest(const Descriptor& folder, const DataSet& set) {
  const JsonValue json{{"version", manifest_version},      {"name", set.name},
                       {"identity", set.identity},         {"samples", set.samples},
                       {"pack_samples", set.pack_samples}, {"fingerprint", fmt::format("{:016x}", set.fingerprint())}};
  const std::string text = json.text(2) + "\n";  // names of files need not be UTF-8
  const Descriptor file = open_in(folder, unfinished_manifest_name, O_RDWR | O_CREAT | O_TRUNC);
  if (file && write_at(file, 0, std::as_bytes(std::span(text))) &&
      ::renameat(*folder, unfinished_manifest_name, *folder, manifest_name) == 0)
    return true;
  const int error = errno;
  ::unlinkat(*folder, unfinished_manifest_name, 0);
  errno = error;
  return false;
}

std::span<const std::byte> Samples::part(std::int64_t i) const {
  const auto end = sizes.begin() + i;
  const auto begin = std::accumulate(sizes.begin(), end, std::int64_t{0});
  return std::span(bytes).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*end));
}

std::int64_t pack_header_bytes(std::int64_t samples) { return front_bytes + samples * entry_bytes + seal_bytes; }

std::vector<std::byte> pack_header(const PackKey& key, const Samples& samples) {
  std::vector<std::byte> header(static_cast<std::size_t>(pack_header_bytes(key.samples)));
  std::byte* at = header.data();
  const auto append = [&](const auto& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  append(Front{.key = key});
  samples.for_each([&](std::int64_t, std::span<const std::byte> sample) {
    append(static_cast<std::int64_t>(sample.size()));
    append(checksum(sample));
  });
  append(checksum({header.data(), at}));
  return header;
}

std::optional<PackFile> PackFile::open(Descriptor file, std::int64_t bytes, const PackKey& key) {
  static_assert(sizeof(Entry) == entry_bytes);
  const std::int64_t header_bytes = pack_header_bytes(key.samples);
  if (bytes < header_bytes) return {};
  std::vector<std::byte> header(static_cast<std::size_t>(header_bytes));
  if (!read_at(file, 0, header)) return {};
  const Front front{.key = key};
  std::uint64_t seal = 0;
  const std::size_t sealed = header.size() - sizeof seal;
  std::memcpy(&seal, header.data() + sealed, sizeof seal);
  if (std::memcmp(&front, header.data(), sizeof front) != 0 || seal != checksum(std::span(header).first(sealed))) return {};

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
  bool whole = true;
  samples.for_each([&](std::int64_t i, std::span<const std::byte> sample) {
    whole = whole && checksum(sample) == entries_[static_cast<std::size_t>(i)].checksum;
  });
  return whole;
}

}  // namespace weir::datacache
