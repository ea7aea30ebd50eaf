// encoded.hpp: the format of a rank's compressed gradient as a self-describing message, for AllreducePlan::encode, weir::inspect
// and weir::decode. It does not depend on plans or ranks.
//
//   offset   bytes
//        0       8   "WEIRCODE"
//        8       4   version, 1
//       12       4   bytes of the header with texts and padding, a multiple of 8: the offset of the payload
//       16       8   count: elements of the gradient
//       24       8   bytes of the payload
//       32       8   entries of a sparse payload; else 0
//       40       1   kind of payload. 0: no payload, all elements are 0. 1: packed, the compressor's message (codec/packed.hpp).
//                    2: sparse, a message of entries with indices in [0, count) (codec/wire.hpp)
//       41       1   WireFormat and
//       42       1   WireValues of a sparse payload; else 0
//       43       1   element type: 0: float32
//       44       2   length of the compressor's name and
//       46       2   of its parameters, "levels=7,bucket=512"
//       48           both texts, not zero-terminated, and zeros up to the payload
//                    the payload
//                8   XXH3-64 of all bytes before it
//
// All numbers are little-endian. Decoding needs no seed, even for random compressors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <weir/weir.hpp>

#include "base/buffer.hpp"
#include "codec/packed.hpp"
#include "codec/wire.hpp"
#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"

namespace weir::encoded {

enum class Form : std::uint8_t { zeros, packed, sparse };

struct Payload {
  Form form = Form::zeros;
  std::int64_t bytes = 0;
  std::int64_t entries = 0;  ///< of a sparse payload
  wire::Wire wire{};         ///< of a sparse payload
};

/// Returns the offset of the payload.
[[nodiscard]] std::int64_t header_bytes(std::string_view compressor, std::string_view parameters);
/// Returns the checksum that the last 8 bytes of a message of `size` bytes must hold.
[[nodiscard]] std::uint64_t right_checksum(const std::byte* message, std::int64_t size);
/// Writes the header and the checksum around a payload of `payload.bytes` bytes at `out` + header_bytes(). Returns the size of the
/// message in bytes.
std::int64_t seal(std::byte* out, std::int64_t count, const Payload& payload, std::string_view compressor,
                  std::string_view parameters);

/// Writes the contributions of one plan, run after run. Allocates only when it is made.
class Writer {
 public:
  /// `compressor` is sparse or packed. A sparse payload has at most `most_entries` entries.
  Writer(const compress::Compressor& compressor, std::int64_t count, std::int64_t most_entries, wire::Wire wire);

  /// Returns an upper bound of the bytes that the three functions below write to `out`. Each returns how many bytes it has written.
  [[nodiscard]] std::int64_t most_bytes() const;
  std::int64_t write_zeros(std::byte* out);
  /// `draw`, `values` and `rest` are as for PackedCodec::encode.
  std::int64_t write_packed(const Draw& draw, const float* values, std::byte* out, float* rest);
  /// The values are those that travel.
  std::int64_t write_sparse(SparseVector<float> entries, std::byte* out);

  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  std::int64_t finish(std::byte* out, const Payload& payload) { return seal(out, count_, payload, compressor_, parameters_); }

  std::string_view compressor_;
  std::string parameters_;
  std::int64_t count_, most_payload_;
  wire::Wire wire_;
  std::unique_ptr<PackedCodec> codec_;  // of packed compressors
  Buffer<std::byte> aligned_;           // holds a message if the caller's address is not aligned for codecs
};

}  // namespace weir::encoded
