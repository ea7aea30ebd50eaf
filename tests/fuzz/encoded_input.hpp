// encoded_input.hpp: interprets a fuzzer input as bytes for weir::decode, or as a description of a header and the payload after it,
// with a correct checksum.
//
//   byte 0      bit 0: plain bytes follow; bit 1: they get a correct checksum, or, for a described sparse payload: it is padded or
//               cut to the size of its entries; bit 2: up to four pairs of bytes at the payload's start are places in the header
//               and changes there, made before the checksum is computed
//   byte 1      the compressor of the registry
//   byte 2      the parameter that does not have its default, and
//   byte 3      its value
//   byte 4      the kind of payload; byte 5: wire format; byte 6: wire values
//   bytes 7-8   count; bytes 9-10: entries; then the payload, or the bytes
#pragma once

#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/compressor.hpp"
#include "plan/encoded.hpp"

namespace weir::fuzz {

inline constexpr std::size_t encoded_header = 11;

/// Returns false if bytes that are no message are accepted, or are refused in another way than documented. The address sanitizer
/// sees writes beyond `count` values.
inline bool decoding_holds(std::span<const std::uint8_t> bytes, std::size_t count) {
  std::unique_ptr<std::byte[]> exact(new std::byte[bytes.size()]);
  if (!bytes.empty()) std::memcpy(exact.get(), bytes.data(), bytes.size());
  const std::span<const std::byte> encoded(exact.get(), bytes.size());
  std::unique_ptr<float[]> values(new float[count]), sum(new float[count]);
  for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<float>(i);
  const auto refused = [&](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      if (error.status() != WEIR_ERR_ARGUMENT || std::string(error.what()).find("encoded gradient: ") != 0) throw;
      return true;
    }
    return false;
  };
  const bool no_header = refused([&] { (void)inspect(encoded); });
  const bool stored = !refused([&] { decode(encoded, {values.get(), count}); });
  const bool added = !refused([&] { decode(encoded, {sum.get(), count}, true); });
  if (stored != added || (no_header && stored)) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const float before = static_cast<float>(i), right = added ? before + values[i] : before;
    if (sum[i] != right && !(std::isnan(sum[i]) && std::isnan(right))) return false;
  }
  return true;
}

/// Returns one parameter with another value than its default, or "" if the row has no parameters.
inline std::string other_parameters(const compress::CompressorRow& row, std::uint8_t which, std::uint8_t choice) {
  if (row.parameters.empty()) return "";
  const ParameterInfo& info = row.parameters[which % row.parameters.size()];
  const std::string name(info.name);
  if (!info.words.empty()) return name + '=' + std::string(info.words[choice % info.words.size()]);
  if (!info.whole) return name + '=' + std::to_string(info.least + (std::min(info.most, 1e3) - info.least) * choice / 255);
  return name + '=' + std::to_string(std::int64_t{1} << choice % 20);
}

inline bool encoded_contract_holds(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < encoded_header) return decoding_holds(bytes, 3);
  std::uint16_t count = 0, entries = 0;
  std::memcpy(&count, &bytes[7], sizeof count);
  std::memcpy(&entries, &bytes[9], sizeof entries);
  std::vector<std::uint8_t> content(bytes.begin() + encoded_header, bytes.end());
  if ((bytes[0] & 1) != 0) {
    if ((bytes[0] & 2) != 0 && content.size() >= 8) {
      const auto size = std::ssize(content);
      const std::uint64_t sum = encoded::right_checksum(reinterpret_cast<const std::byte*>(content.data()), size);
      std::memcpy(&content[content.size() - 8], &sum, sizeof sum);
    }
    return decoding_holds(content, count);
  }
  const auto rows = compress::compressor_registry();
  const compress::CompressorRow& row = *rows[bytes[1] % rows.size()];
  const std::string parameters = other_parameters(row, bytes[2], bytes[3]);
  encoded::Payload payload{static_cast<encoded::Form>(bytes[4] % 4),
                           0,
                           entries,
                           {static_cast<WireFormat>(bytes[5] % 3), static_cast<WireValues>(bytes[6] % 4)}};
  if (payload.form != encoded::Form::sparse && bytes[6] < 128) payload = {payload.form};
  const bool sensible = payload.wire.format <= WireFormat::coo && payload.wire.values <= WireValues::float16 && entries <= count;
  if ((bytes[0] & 2) != 0 && sensible && payload.form == encoded::Form::sparse)
    content.resize(static_cast<std::size_t>(wire::message_bytes<float>(payload.wire, entries, count)));
  payload.bytes = std::ssize(content);
  const std::int64_t begin = encoded::header_bytes(row.name, parameters);
  std::vector<std::uint8_t> whole(static_cast<std::size_t>(begin) + content.size() + 8);
  std::copy(content.begin(), content.end(), whole.begin() + begin);
  auto* const message = reinterpret_cast<std::byte*>(whole.data());
  encoded::seal(message, count, payload, row.name, parameters);
  if ((bytes[0] & 4) != 0) {
    for (std::size_t i = 0; i + 1 < std::min<std::size_t>(content.size(), 2 + 2 * (bytes[1] % 4)); i += 2)
      whole[content[i] % static_cast<std::size_t>(begin)] ^= content[i + 1];
    const std::uint64_t sum = encoded::right_checksum(message, std::ssize(whole));
    std::memcpy(&whole[whole.size() - 8], &sum, sizeof sum);
  }
  return decoding_holds(whole, count);
}

}  // namespace weir::fuzz
