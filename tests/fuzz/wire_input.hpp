// wire_input.hpp: interprets a fuzzer input as a description of a message and either its bytes or its entries.
//
//   byte 0      bit 0: double; bits 1-2: values; bit 3: coo; bit 4: exactly the message's number of bytes; bit 5: entries follow
//   byte 1      bits 0-4: right shift of the range
//   bytes 2-3   entries
//   bytes 4-7   range - 1 before the shift
//   bytes 8-11  base, reduced so that base + range <= 2^32
//   then        the message; or, with bit 5, one byte per entry: the distance of its index from the previous one
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "codec/wire.hpp"

namespace weir::fuzz {

struct WireInput {
  wire::Wire wire;
  bool is_double = false, exact_size = false, entries = false;
  std::int64_t count = 0;
  std::uint64_t range = 1;
  std::uint32_t base = 0;
  std::span<const std::uint8_t> rest;
};

inline constexpr std::size_t wire_header = 12;

inline WireInput parse_wire_input(std::span<const std::uint8_t> bytes) {
  std::uint32_t range = 0, base = 0;
  std::uint16_t count = 0;
  std::memcpy(&count, &bytes[2], sizeof count);
  std::memcpy(&range, &bytes[4], sizeof range);
  std::memcpy(&base, &bytes[8], sizeof base);
  WireInput input;
  const std::uint8_t flags = bytes[0];
  input.is_double = (flags & 1) != 0;
  if (!input.is_double) input.wire.values = static_cast<WireValues>((flags >> 1 & 3) % 3);
  input.wire.format = (flags & 8) != 0 ? WireFormat::coo : WireFormat::compact;
  input.exact_size = (flags & 16) != 0;
  input.entries = (flags & 32) != 0;
  input.count = count;
  input.range = std::uint64_t{range >> (bytes[1] & 31)} + 1;
  input.base = static_cast<std::uint32_t>(std::min<std::uint64_t>(base, (std::uint64_t{1} << 32) - input.range));
  input.rest = bytes.subspan(wire_header);
  return input;
}

/// Returns a copy in memory of the exact size, so that the address sanitizer sees every access beyond it.
template <class T>
std::unique_ptr<T[]> exact_copy(const T* from, std::size_t count) {
  std::unique_ptr<T[]> result(new T[count]);
  if (count > 0) std::memcpy(result.get(), from, count * sizeof(T));
  return result;
}

/// Makes strictly ascending indices in the range, as many as fit, and values of all bit patterns.
template <class T>
void make_entries(const WireInput& input, std::vector<std::uint32_t>& indices, std::vector<T>& values) {
  std::uint64_t at = 0;
  std::uint64_t bits = 0x9e3779b97f4a7c15;
  for (std::int64_t i = 0; i < input.count; ++i) {
    const std::uint8_t gap = input.rest.empty() ? 0 : input.rest[static_cast<std::size_t>(i) % input.rest.size()];
    // 0 ... 191 are the distance itself; larger bytes are distances up to 2^22.
    at += gap < 192 ? gap : std::uint64_t{1} << (gap - 192) / 3;
    if (at >= input.range) break;
    indices.push_back(input.base + static_cast<std::uint32_t>(at++));
    bits = bits * 6364136223846793005 + gap;
    T value;
    const std::uint64_t shown = gap % 16 == 15 ? ~std::uint64_t{0} : bits;
    std::memcpy(&value, &shown, sizeof value);
    values.push_back(value);
  }
}

/// Returns false if entries do not arrive as documented.
template <class T>
bool round_trip_holds(const WireInput& input, const std::vector<std::uint32_t>& indices, const std::vector<T>& values) {
  const auto count = static_cast<std::int64_t>(indices.size());
  const std::int64_t bytes = wire::message_bytes<T>(input.wire, count, input.range);
  std::unique_ptr<std::byte[]> message(new std::byte[static_cast<std::size_t>(bytes)]);
  std::unique_ptr<std::uint32_t[]> got_indices(new std::uint32_t[indices.size()]);
  std::unique_ptr<T[]> got_values(new T[indices.size()]), expected(new T[indices.size()]);
  if (wire::encode(input.wire, indices.data(), values.data(), count, input.base, input.range, message.get()) != bytes) return false;
  wire::decode(input.wire, message.get(), bytes, count, input.base, input.range, got_indices.get(), got_values.get());
  wire::round_values(input.wire.values, values.data(), expected.get(), count);
  return std::equal(indices.begin(), indices.end(), got_indices.get()) &&
         (count == 0 || std::memcmp(expected.get(), got_values.get(), indices.size() * sizeof(T)) == 0);
}

/// Decodes `rest`. Returns false if decode accepts anything but a sorted vector within the range, or fails in another way than
/// documented.
template <class T>
bool decode_holds(const WireInput& input) {
  std::vector<std::uint8_t> message(input.rest.begin(), input.rest.end());
  if (input.exact_size) {
    message.resize(static_cast<std::size_t>(wire::message_bytes<T>(input.wire, input.count, input.range)));
  }
  const auto in = exact_copy(message.data(), message.size());
  const auto count = static_cast<std::size_t>(input.count);
  std::unique_ptr<std::uint32_t[]> indices(new std::uint32_t[count]);
  std::unique_ptr<T[]> values(new T[count]);
  try {
    wire::decode(input.wire, reinterpret_cast<const std::byte*>(in.get()), static_cast<std::int64_t>(message.size()), input.count,
                 input.base, input.range, indices.get(), values.get());
  } catch (const Error& error) {
    return error.status() == WEIR_ERR_TRANSPORT;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (indices[i] < input.base || indices[i] - std::uint64_t{input.base} >= input.range) return false;
    if (i > 0 && indices[i] <= indices[i - 1]) return false;
  }
  return round_trip_holds(input, {indices.get(), indices.get() + count}, std::vector<T>(values.get(), values.get() + count));
}

template <class T>
bool wire_contract_holds(const WireInput& input) {
  if (!input.entries) return decode_holds<T>(input);
  std::vector<std::uint32_t> indices;
  std::vector<T> values;
  make_entries(input, indices, values);
  return round_trip_holds(input, indices, values);
}

/// Returns true if the codec handles these bytes as wire.hpp promises, or if there are too few bytes.
inline bool wire_contract_holds(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < wire_header) return true;
  const WireInput input = parse_wire_input(bytes);
  return input.is_double ? wire_contract_holds<double>(input) : wire_contract_holds<float>(input);
}

}  // namespace weir::fuzz
