#include "datacache/manifest.hpp"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "base/json.hpp"

namespace weir::datacache {
namespace {

constexpr std::int64_t longest = 1 << 24;  // no intact manifest is longer

}  // namespace

std::int64_t DataSet::samples_of(std::int64_t pack) const { return std::min(pack_samples, samples - pack * pack_samples); }

std::uint64_t DataSet::fingerprint() const {
  const std::string all = fmt::format("{} {} {}", samples, pack_samples, identity);
  return XXH3_64bits(all.data(), all.size());
}

bool is_data_set_name(std::string_view name) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.size() <= 64 && name[0] != '.' && name.find_first_not_of(allowed) == std::string_view::npos;
}

std::optional<Manifest> read_manifest(const Descriptor& folder) {
  const Descriptor file = open_in(folder, manifest_name, O_RDONLY);
  const auto status = file ? status_of(file) : std::nullopt;
  if (!status || !status->regular || status->bytes > longest) return {};
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

}  // namespace weir::datacache
