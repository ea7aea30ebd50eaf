// packed.hpp: the interface of compressors that encode a vector as bytes. Compressors in src/compress implement it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace weir {

/// Selects the random numbers that a compressor draws. They depend only on this and on the place of an element in its vector.
struct Draw {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;
  std::uint32_t stream = 0;  ///< differs between ranks, and for what a rank compresses again
};

/// What ranks agree on before they encode: of each word, the largest of any rank's.
using Agreement = std::array<std::uint64_t, 2>;

/// Encodes vectors as bytes, and adds up decoded messages. A message of `count` values must be decoded by a codec of the same
/// configuration with the same count. Messages are little-endian and may begin at any multiple of 8.
class PackedCodec {
 public:
  PackedCodec() = default;
  virtual ~PackedCodec() = default;
  PackedCodec(const PackedCodec&) = delete;
  PackedCodec& operator=(const PackedCodec&) = delete;

  /// Returns the alignment of parts of a vector that are encoded separately, a multiple of 256.
  [[nodiscard]] virtual std::int64_t granularity() const = 0;
  /// Returns the most bytes of a message of `count` values; never less for more values, and 0 for no values.
  [[nodiscard]] virtual std::int64_t most_bytes(std::int64_t count) const = 0;
  /// Returns true if all messages of `count` values have most_bytes(count) bytes.
  [[nodiscard]] virtual bool fixed_size() const = 0;
  /// Encodes `count` values, which begin at element `first` of their vector. `out` has room for most_bytes(count). Returns the
  /// bytes. Sets rest[i] to values[i] minus its decoded value. `rest` may be `values`, or nullptr if it is not needed.
  virtual std::int64_t encode(const Draw& draw, std::int64_t first, const float* values, std::int64_t count, std::byte* out,
                              float* rest) = 0;
  /// Sets sum[i] to the decoded values, or adds them if `add`. Never reads beyond the message and never writes beyond `count`
  /// values, whatever the message holds. Throws Error(WEIR_ERR_TRANSPORT) if it is malformed; the values are then undefined.
  virtual void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) = 0;
  /// Turns the sum of several ranks' decoded values into what it stands for, before it is divided.
  virtual void finish(float* /*sum*/, std::int64_t /*count*/) {}
  /// Returns true if finish() turns the sum into a vote, which is not divided. A rank's own values then go through the codec as
  /// well.
  [[nodiscard]] virtual bool votes() const { return false; }
  /// Returns true if a value's sum stands for the mean over the ranks that sent it, times the number of ranks. The caller that sums
  /// then calls count_senders() for each message that it decodes, and scales before finish() (PackedSum).
  [[nodiscard]] virtual bool counts_senders() const { return false; }
  /// Adds 1 to senders[i] if the message holds value i. Reads, writes and throws as decode() does.
  virtual void count_senders(const std::byte* /*in*/, std::int64_t /*bytes*/, std::int64_t /*count*/, std::uint16_t* /*senders*/) {}
  /// Returns true if sums of decoded values are encoded without loss. A rank's own values then go through the codec as well, so
  /// that all that is summed has been decoded.
  [[nodiscard]] virtual bool keeps_sums() const { return false; }
  /// Returns true if the ranks must agree on something about their values before they encode. Each rank then measures its values,
  /// and before each run gives agree() the largest words of any rank. Before the first agree(), encode() measures what it encodes.
  [[nodiscard]] virtual bool agrees() const { return false; }
  [[nodiscard]] virtual Agreement measure(const float* /*values*/, std::int64_t /*count*/) const { return {}; }
  virtual void agree(const Agreement& /*words*/) {}
  [[nodiscard]] virtual std::int64_t memory_bytes() const { return 0; }
};

}  // namespace weir
