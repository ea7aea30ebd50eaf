#include "plan/encoded.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/floating_point.hpp"
#include "kernels/kernels.hpp"

namespace weir {
namespace encoded {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and written as memory has it");

using compress::Carriage;

constexpr std::string_view magic = "WEIRCODE";
constexpr std::uint32_t version = 1;
constexpr std::int64_t checksum_bytes = 8;
constexpr std::int64_t alignment = 8;  // of the memory that codecs read and write
constexpr std::int64_t largest_count = std::int64_t{1} << 48;

struct Header {
  char magic[8];
  std::uint32_t version, header_bytes;
  std::int64_t count, payload_bytes, entries;
  std::uint8_t form, wire_format, wire_values, element;
  std::uint16_t compressor_bytes, parameters_bytes;
};
static_assert(sizeof(Header) == 48);

std::int64_t filled_up(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

bool is_aligned(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at) % alignment == 0; }

std::uint64_t checksum(const std::byte* bytes, std::int64_t size) { return XXH3_64bits(bytes, static_cast<std::size_t>(size)); }

template <class... Values>
[[noreturn]] void refuse(fmt::format_string<Values...> text, Values&&... values) {
  throw Error(WEIR_ERR_ARGUMENT, "encoded gradient: " + fmt::format(text, std::forward<Values>(values)...));
}

/// A message whose checksum is right. Its payload has not been checked yet.
struct Message {
  Header header{};
  std::string_view compressor, parameters;
  const std::byte* payload = nullptr;
  std::int64_t bytes = 0;

  [[nodiscard]] wire::Wire wire() const {
    return {static_cast<WireFormat>(header.wire_format), static_cast<WireValues>(header.wire_values)};
  }
  [[nodiscard]] EncodedInfo info() const {
    const bool whole = header.form == static_cast<std::uint8_t>(Form::packed);
    return {header.version,          header.count,           whole ? header.count : header.entries, bytes,
            std::string(compressor), std::string(parameters)};
  }
};

void check_fields(const Header& h) {
  if (h.count < 0 || h.count > largest_count || h.entries < 0 || h.entries > h.count)
    refuse("its header makes no sense: {} elements, {} entries", h.count, h.entries);
  if (h.element != 0) refuse("its elements are of type {}: this library reads 0, float32", h.element);
  if (h.form > static_cast<std::uint8_t>(Form::sparse)) refuse("its payload is of kind {}: this library knows 0 to 2", h.form);
  const bool sparse = h.form == static_cast<std::uint8_t>(Form::sparse);
  const bool bad_wire =
      h.wire_format > static_cast<std::uint8_t>(WireFormat::coo) || h.wire_values > static_cast<std::uint8_t>(WireValues::float16);
  if (bad_wire || (!sparse && (h.entries != 0 || h.wire_format != 0 || h.wire_values != 0)))
    refuse("its header makes no sense: {} entries, wire format {}, wire values {}", h.entries, h.wire_format, h.wire_values);
  if (h.form == static_cast<std::uint8_t>(Form::zeros) && h.payload_bytes != 0)
    refuse("its header makes no sense: a payload of {} bytes for nothing but zeros", h.payload_bytes);
}

Message read(std::span<const std::byte> given) {
  Message message;
  message.bytes = static_cast<std::int64_t>(given.size());
  Header& h = message.header;
  constexpr auto least = static_cast<std::int64_t>(sizeof h) + checksum_bytes;
  if (message.bytes < least)
    refuse("{} bytes are too few: there are at least {}; it is truncated, or something else", message.bytes, least);
  std::memcpy(&h, given.data(), sizeof h);
  if (std::string_view(h.magic, sizeof h.magic) != magic)
    refuse("it does not begin with {}: give the bytes that encode has written, from the first on", magic);
  if (h.version != version) refuse("it is of version {}: this library reads version {}", h.version, version);
  const std::int64_t texts = std::int64_t{h.compressor_bytes} + h.parameters_bytes;
  if (std::int64_t{h.header_bytes} != filled_up(static_cast<std::int64_t>(sizeof h) + texts))
    refuse("its header says that it has {} bytes: it is damaged", h.header_bytes);
  const std::int64_t left = message.bytes - h.header_bytes - checksum_bytes;
  if (left < 0) refuse("it has {} bytes, and its header alone {}: it is truncated, or damaged", message.bytes, h.header_bytes);
  if (left != h.payload_bytes)
    refuse("it has {} bytes, and its header says that there are {}: {}", message.bytes,
           static_cast<std::uint64_t>(h.payload_bytes) + h.header_bytes + checksum_bytes,
           left < h.payload_bytes ? "it is truncated, or damaged" : "give exactly those that encode has written");
  std::uint64_t sum = 0;
  std::memcpy(&sum, given.data() + message.bytes - checksum_bytes, sizeof sum);
  if (sum != checksum(given.data(), message.bytes - checksum_bytes)) refuse("its checksum does not match: it is damaged");
  check_fields(h);
  const char* const text = reinterpret_cast<const char*>(given.data()) + sizeof h;
  message.compressor = {text, h.compressor_bytes};
  message.parameters = {text + h.compressor_bytes, h.parameters_bytes};
  message.payload = given.data() + h.header_bytes;
  return message;
}

/// Reports a codec's transport error as an error in the message.
template <class Body>
void decoding(const Message& message, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.status() != WEIR_ERR_TRANSPORT) throw;
    refuse("the payload of compressor {} cannot be read: {}", message.compressor, error.what());
  }
}

compress::Compressor compressor_of(const Message& message) {
  compress::Compressor compressor;
  try {
    compressor = compress::make_compressor(message.compressor, message.parameters);
  } catch (const Error& error) {
    refuse("{}", error.what());
  }
  const auto form = static_cast<Form>(message.header.form);
  const Carriage carriage = compressor ? compressor.row->carriage : Carriage::linear;
  const bool fits = form == Form::zeros || (form == Form::packed && carriage == Carriage::packed) ||
                    (form == Form::sparse && carriage == Carriage::sparse);
  if (!fits) refuse("compressor {} does not make a payload of kind {}", message.compressor, message.header.form);
  return compressor;
}

void decode_packed(const Message& message, const compress::Compressor& compressor, std::span<float> values, bool add) {
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t bytes = message.header.payload_bytes;
  const std::unique_ptr<PackedCodec> codec = compressor.row->codec(compressor.parameters);
  const std::int64_t most = codec->most_bytes(count);
  if (bytes > most || (codec->fixed_size() && bytes != most))
    refuse("its payload has {} bytes, which {} does not make of {} elements", bytes, message.compressor, count);
  Buffer<std::byte> aligned(is_aligned(message.payload) ? 0 : bytes);
  if (aligned.size() > 0) std::copy_n(message.payload, bytes, aligned.data());
  Buffer<float> apart(add ? count : 0);  // finish() must see only this message's values, and a refused message must add nothing
  float* const decoded = add ? apart.data() : values.data();
  decoding(message, [&] { codec->decode(aligned.size() > 0 ? aligned.data() : message.payload, bytes, count, decoded, false); });
  codec->finish(decoded, count);
  if (add) kernels::host::add(decoded, values.data(), count);
}

void decode_sparse(const Message& message, std::span<float> values, bool add) {
  const Header& h = message.header;
  if (h.payload_bytes != wire::message_bytes<float>(message.wire(), h.entries, static_cast<std::uint64_t>(h.count)))
    refuse("its payload has {} bytes, which is not what {} entries of {} elements take", h.payload_bytes, h.entries, h.count);
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(h.entries));
  std::vector<float> entries(static_cast<std::size_t>(h.entries));
  decoding(message, [&] {
    wire::decode(message.wire(), message.payload, h.payload_bytes, h.entries, 0, static_cast<std::uint64_t>(h.count),
                 indices.data(), entries.data());
  });
  if (add) return kernels::host::scatter_add(values.data(), indices.data(), entries.data(), h.entries);
  std::fill(values.begin(), values.end(), 0.0F);
  kernels::host::scatter(values.data(), indices.data(), entries.data(), h.entries);
}

}  // namespace

std::int64_t header_bytes(std::string_view compressor, std::string_view parameters) {
  return filled_up(static_cast<std::int64_t>(sizeof(Header) + compressor.size() + parameters.size()));
}

std::uint64_t right_checksum(const std::byte* message, std::int64_t size) { return checksum(message, size - checksum_bytes); }

std::int64_t seal(std::byte* out, std::int64_t count, const Payload& payload, std::string_view compressor,
                  std::string_view parameters) {
  const std::int64_t begin = header_bytes(compressor, parameters), end = begin + payload.bytes;
  Header h{};
  std::copy(magic.begin(), magic.end(), h.magic);
  h.version = version;
  h.header_bytes = static_cast<std::uint32_t>(begin);
  h.count = count;
  h.payload_bytes = payload.bytes;
  h.entries = payload.entries;
  h.form = static_cast<std::uint8_t>(payload.form);
  h.wire_format = static_cast<std::uint8_t>(payload.wire.format);
  h.wire_values = static_cast<std::uint8_t>(payload.wire.values);
  h.compressor_bytes = static_cast<std::uint16_t>(compressor.size());
  h.parameters_bytes = static_cast<std::uint16_t>(parameters.size());
  std::memcpy(out, &h, sizeof h);
  std::byte* at = out + sizeof h;
  for (const std::string_view text : {compressor, parameters})
    at = std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), at);
  std::fill(at, out + begin, std::byte{0});
  const std::uint64_t sum = checksum(out, end);
  std::memcpy(out + end, &sum, sizeof sum);
  return end + checksum_bytes;
}

Writer::Writer(const compress::Compressor& compressor, std::int64_t count, std::int64_t most_entries, wire::Wire wire)
    : compressor_(compressor.row->name), parameters_(compressor.parameters.text()), count_(count), wire_(wire) {
  if (compressor.row->carriage == Carriage::packed) {
    codec_ = compressor.row->codec(compressor.parameters);
    most_payload_ = codec_->most_bytes(count);
    aligned_ = Buffer<std::byte>(most_payload_);
  } else {
    most_payload_ = wire::message_bytes<float>(wire, most_entries, static_cast<std::uint64_t>(count));
  }
}

std::int64_t Writer::most_bytes() const { return header_bytes(compressor_, parameters_) + most_payload_ + checksum_bytes; }

std::int64_t Writer::write_zeros(std::byte* out) { return finish(out, {}); }

std::int64_t Writer::write_packed(const Draw& draw, const float* values, std::byte* out, float* rest) {
  std::byte* const payload = out + header_bytes(compressor_, parameters_);
  std::byte* const written = is_aligned(payload) ? payload : aligned_.data();
  Payload made{Form::packed};
  made.bytes = codec_->encode(draw, 0, values, count_, written, rest);
  if (written != payload) std::copy_n(written, made.bytes, payload);
  return finish(out, made);
}

std::int64_t Writer::write_sparse(SparseVector<float> entries, std::byte* out) {
  Payload made{Form::sparse, 0, entries.count, wire_};
  made.bytes = wire::encode(wire_, entries.indices, entries.values, entries.count, 0, static_cast<std::uint64_t>(count_),
                            out + header_bytes(compressor_, parameters_));
  return finish(out, made);
}

std::int64_t Writer::memory_bytes() const { return aligned_.bytes() + (codec_ ? codec_->memory_bytes() : 0); }

}  // namespace encoded

EncodedInfo inspect(std::span<const std::byte> given) { return encoded::read(given).info(); }

EncodedInfo decode(std::span<const std::byte> given, std::span<float> values, bool add) {
  const StandardFloatingPoint standard;
  const encoded::Message message = encoded::read(given);
  if (message.header.count != static_cast<std::int64_t>(values.size()))
    encoded::refuse("it is of {} elements, and there is room for {}: give as many values", message.header.count, values.size());
  const compress::Compressor compressor = encoded::compressor_of(message);
  switch (static_cast<encoded::Form>(message.header.form)) {
    case encoded::Form::zeros:
      if (!add) std::fill(values.begin(), values.end(), 0.0F);
      break;
    case encoded::Form::packed:
      encoded::decode_packed(message, compressor, values, add);
      break;
    case encoded::Form::sparse:
      encoded::decode_sparse(message, values, add);
      break;
  }
  return message.info();
}

}  // namespace weir
