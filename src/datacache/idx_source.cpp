// The IDX format: two zeros, a type, the number of dimensions, the dimensions, the elements; everything big-endian.
#include <array>
#include <bit>

#include "base/error.hpp"
#include "datacache/array_source.hpp"

namespace weir {

using namespace datacache;

namespace {

constexpr std::size_t magic_bytes = 4, dimension_bytes = 4;

std::optional<Element> element_of(std::byte code) {
  const auto of = [](Number number, int bytes) {
    return Element{number, bytes, bytes > 1 && std::endian::native == std::endian::little};
  };
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return of(Number::natural, 1);
    case 0x09:
      return of(Number::integer, 1);
    case 0x0b:
      return of(Number::integer, 2);
    case 0x0c:
      return of(Number::integer, 4);
    case 0x0d:
      return of(Number::real, 4);
    case 0x0e:
      return of(Number::real, 8);
    default:
      return std::nullopt;
  }
}

std::int64_t big_endian(std::span<const std::byte> bytes) {
  std::int64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<int>(byte);
  return value;
}

ArrayFile open_idx(const std::string& path) {
  ArrayFile array{StoreFile(path), magic_bytes, {}};
  std::array<std::byte, magic_bytes> magic{};
  if (array.file.bytes() < array.begin) fail(WEIR_ERR_FILE, "{} has {} bytes: it is no IDX file", path, array.file.bytes());
  array.file.read(0, magic);
  if (magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b})
    fail(WEIR_ERR_FILE, "{} is compressed by gzip: decompress it before, as gunzip does", path);
  const std::optional<Element> element = element_of(magic[2]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || !element)
    fail(WEIR_ERR_FILE, "{} is no IDX file: it begins with the bytes {:02x} {:02x} {:02x}, and none begins so", path,
         std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]), std::to_integer<int>(magic[2]));
  array.shape.element = *element;
  std::vector<std::byte> lengths(std::to_integer<std::size_t>(magic[3]) * dimension_bytes);
  array.begin += static_cast<std::int64_t>(lengths.size());
  if (array.file.bytes() < array.begin) fail(WEIR_ERR_FILE, "{} has {} bytes: it ends within its header", path, array.file.bytes());
  array.file.read(magic_bytes, lengths);
  for (std::size_t at = 0; at < lengths.size(); at += dimension_bytes)
    array.shape.dimensions.push_back(big_endian(std::span(lengths).subspan(at, dimension_bytes)));
  array.shape.measure(path);
  array.check_size();
  return array;
}

}  // namespace

std::shared_ptr<SampleSource> idx_source(const std::string& path, const std::string& labels) {
  return array_source("idx", open_idx(path), labels.empty() ? std::nullopt : std::optional(open_idx(labels)));
}

}  // namespace weir
