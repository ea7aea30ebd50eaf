// Reads NumPy's files, versions 1 to 3: "\x93NUMPY", the version, the header's length, the header, the elements.
#include <array>
#include <cstring>

#include "base/error.hpp"
#include "datacache/npy_header.hpp"

namespace weir {

using namespace datacache;

namespace {

constexpr std::int64_t largest_header = 1 << 20;

ArrayFile open_npy(const std::string& path) {
  constexpr std::string_view magic = "\x93NUMPY";
  ArrayFile array{StoreFile(path), 0, {}};
  std::array<std::byte, 12> begin{};  // the bytes before the header; in version 1, also its beginning
  if (array.file.bytes() < static_cast<std::int64_t>(begin.size()))
    fail(WEIR_ERR_FILE, "{} has {} bytes: it is no NumPy file", path, array.file.bytes());
  array.file.read(0, begin);
  if (std::memcmp(begin.data(), "PK\x03\x04", 4) == 0)
    fail(WEIR_ERR_FILE, "{} is an archive of NumPy files (.npz): save arrays by numpy.save, a file for each", path);
  if (std::memcmp(begin.data(), magic.data(), magic.size()) != 0)
    fail(WEIR_ERR_FILE, "{} is no NumPy file: it does not begin with \\x93NUMPY", path);
  const int version = std::to_integer<int>(begin[6]);
  if (version < 1 || version > 3)
    fail(WEIR_ERR_FILE, "{} is a NumPy file of version {}: versions 1, 2 and 3 can be read", path, version);
  const int length_bytes = version == 1 ? 2 : 4;
  std::int64_t length = 0;
  for (int i = length_bytes; i-- > 0;) length = length << 8 | std::to_integer<int>(begin[static_cast<std::size_t>(8 + i)]);
  const std::int64_t before = 8 + length_bytes;
  if (length > largest_header || length > array.file.bytes() - before)
    fail(WEIR_ERR_FILE, "{} claims a header of {} bytes, and has {} in all: it is damaged", path, length, array.file.bytes());
  std::string header(static_cast<std::size_t>(length), '\0');
  array.file.read(before, std::as_writable_bytes(std::span(header)));
  array.begin = before + length;
  array.shape = parse_npy_header(header, path);
  array.check_size();
  return array;
}

}  // namespace

std::shared_ptr<SampleSource> npy_source(const std::string& path, const std::string& labels) {
  return array_source("npy", open_npy(path), labels.empty() ? std::nullopt : std::optional(open_npy(labels)));
}

}  // namespace weir
