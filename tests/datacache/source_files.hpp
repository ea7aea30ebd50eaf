// source_files.hpp: writes files of samples for tests, and reads them with sources.
#pragma once

#include <cstring>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include <weir/datacache.hpp>

namespace weir::test {

using Bytes = std::vector<std::byte>;

inline Bytes bytes_of(const std::string& text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Returns the elements as bytes, in the given byte order.
template <class T>
std::string elements(const std::vector<T>& values, bool big_endian) {
  std::string bytes;
  for (const T value : values) {
    std::string one(sizeof(T), '\0');
    std::memcpy(one.data(), &value, sizeof(T));
    if (big_endian) one.assign(one.rbegin(), one.rend());  // tests run on little-endian machines
    bytes += one;
  }
  return bytes;
}

inline std::string idx_header(int type, const std::vector<std::uint32_t>& lengths) {
  std::string header = {'\0', '\0', static_cast<char>(type), static_cast<char>(lengths.size())};
  return header + elements(lengths, true);
}

inline std::string npy_header(const std::string& dictionary, int version = 1) {
  std::string header = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  std::string text = dictionary;
  const std::size_t before = version == 1 ? 10 : 12;
  while ((before + text.size() + 1) % 64 != 0) text += ' ';
  text += '\n';
  if (version == 1)
    header += elements(std::vector<std::uint16_t>{static_cast<std::uint16_t>(text.size())}, false);
  else
    header += elements(std::vector<std::uint32_t>{static_cast<std::uint32_t>(text.size())}, false);
  return header + text;
}

inline std::string npy_dictionary(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

/// Returns all values of samples [first, first + count), read together.
inline std::vector<Bytes> values_of(SampleSource& source, std::int64_t first, std::int64_t count) {
  Bytes encoded;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), -1);
  source.read(first, count, encoded, sizes);
  std::vector<Bytes> values;
  std::span<const std::byte> rest = encoded;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto size = static_cast<std::size_t>(sizes[static_cast<std::size_t>(i)]);
    Bytes value(static_cast<std::size_t>(source.value_bytes()), std::byte{0xa5});
    value.resize(static_cast<std::size_t>(source.decode(first + i, rest.first(size), value)));
    values.push_back(std::move(value));
    rest = rest.subspan(size);
  }
  if (!rest.empty()) throw std::runtime_error("more bytes than sizes say");
  return values;
}
inline std::vector<Bytes> values_of(SampleSource& source) { return values_of(source, 0, source.size()); }

/// Returns the samples as a slow, obvious reader reads them: item `i` of `items` in this machine's byte order, zeros, its label.
inline std::vector<Bytes> labelled(const std::string& items, std::size_t item_bytes, const std::vector<std::int32_t>& labels) {
  std::vector<Bytes> values;
  for (std::size_t at = 0; at < items.size(); at += item_bytes) {
    std::string value = items.substr(at, item_bytes);
    if (!labels.empty()) {
      while (value.size() % 4 != 0) value += '\0';
      value += elements(std::vector{labels[at / item_bytes]}, false);
    }
    values.push_back(bytes_of(value));
  }
  return values;
}

/// Returns the text that `make` throws, or "none" if it throws no Error(WEIR_ERR_FILE).
template <class Make>
std::string file_error(const Make& make) {
  try {
    static_cast<void>(make());
  } catch (const Error& error) {
    return error.status() == WEIR_ERR_FILE ? error.what() : "another status: " + std::string(error.what());
  }
  return "none";
}

}  // namespace weir::test
