// packed.hpp: how a vector looks on the wire when a compressor has made bytes of it. Who implements it: compress.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir {

/// Which random numbers a compressor draws: they depend on nothing else, and on the place of an element in its vector.
struct Draw {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;
  std::uint32_t stream = 0;  ///< another one for each rank, and for what a rank compresses again
};

/// Makes bytes of vectors and adds up what such bytes stand for. A message of `count` values is decoded by a codec of the same
/// configuration that is told the same count. Messages are little-endian and may begin at any multiple of 8.
class PackedCodec {
 public:
  PackedCodec() = default;
  virtual ~PackedCodec() = default;
  PackedCodec(const PackedCodec&) = delete;
  PackedCodec& operator=(const PackedCodec&) = delete;

  /// Parts of a vector that are encoded by themselves begin at multiples of this, a multiple of 256.
  [[nodiscard]] virtual std::int64_t granularity() const = 0;
  /// Most bytes of a message of `count` values; never less for more of them. 0 for none.
  [[nodiscard]] virtual std::int64_t most_bytes(std::int64_t count) const = 0;
  /// Messages of `count` values all have most_bytes(count).
  [[nodiscard]] virtual bool fixed_size() const = 0;
  /// Encodes `count` values, which are those from `first` on of their vector; `out` has room for most_bytes(count). Returns the
  /// bytes. rest[i] = values[i] - what they are once decoded; `rest` may be `values`, and nullptr where nobody wants to know.
  virtual std::int64_t encode(const Draw& draw, std::int64_t first, const float* values, std::int64_t count, std::byte* out,
                              float* rest) = 0;
  /// sum[i] = the decoded values, or, with `add`, sum[i] += these. Whatever the message holds, nothing beyond it is read and
  /// nothing beyond `count` values is written; throws Error(WEIR_ERR_TRANSPORT), the values then undefined, where it is malformed.
  virtual void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) = 0;
  /// Turns the sum of several ranks' decoded values into what it stands for, before it is divided.
  virtual void finish(float* /*sum*/, std::int64_t /*count*/) {}
  /// What finish() makes is no sum, and is not divided; a rank's own values go through the codec as those of others do.
  [[nodiscard]] virtual bool votes() const { return false; }
  /// A sum is the mean over the ranks that sent each of its values, times the number of ranks: who sums calls count_senders() for
  /// each message that it decodes, and scales before finish() (sum_of_senders).
  [[nodiscard]] virtual bool counts_senders() const { return false; }
  /// senders[i] += 1 where the message holds value i. Reads, writes and throws as decode() does.
  virtual void count_senders(const std::byte* /*in*/, std::int64_t /*bytes*/, std::int64_t /*count*/, std::uint16_t* /*senders*/) {}
  [[nodiscard]] virtual std::int64_t memory_bytes() const { return 0; }
};

}  // namespace weir
