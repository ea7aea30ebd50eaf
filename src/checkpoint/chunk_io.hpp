// chunk_io.hpp: moves the elements of arrays to and from the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/buffer.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/layout.hpp"

namespace weir::checkpoint {

/// One rank's piece of an array that is to be written.
struct OutgoingArray {
  std::int64_t element_bytes = 0, chunk_elements = 0;
  std::span<const std::byte> elements;
  std::vector<Chunk> chunks;          ///< with addresses once these are known
  std::vector<std::byte> compressed;  ///< all chunks, one after the other; if empty, `elements` has them
};
/// Compresses with deflate (`compression` 0: does not compress) and computes checksums.
void prepare(OutgoingArray& array, std::int64_t compression);
/// Writes all chunks to their addresses. Returns the number of bytes written.
std::int64_t write(const File& file, const OutgoingArray& array);

/// Reads pieces of arrays. Throws Error(WEIR_ERR_FILE) naming file, dataset and rank if a chunk does not match its checksum.
class ChunkReader {
 public:
  /// All arguments must outlive the reader.
  ChunkReader(const File& file, const Index& index, const Subject& subject, const Dataset& dataset)
      : file_(file), index_(index), subject_(subject), dataset_(dataset) {}
  /// Reads elements [first, first + count) of the piece of `rank`.
  void read(std::size_t rank, std::int64_t first, std::int64_t count, std::byte* to);
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_; }

 private:
  void check(std::size_t rank, std::size_t chunk, std::span<const std::byte> bytes) const;
  /// Returns the `count` elements of the chunk `at`. They are valid until the next chunk is read.
  std::span<const std::byte> chunk(std::size_t rank, std::size_t at, std::int64_t count);
  /// Reads the chunks [begin, end) whole, directly to their destination; those that are adjacent in the file together.
  void read_run(std::size_t rank, std::size_t begin, std::size_t end, std::byte* to);

  const File& file_;
  const Index& index_;
  const Subject& subject_;
  const Dataset& dataset_;
  std::vector<std::byte> stored_, elements_;
  std::size_t held_ = nothing;  // the chunk that elements_ has
  std::int64_t bytes_read_ = 0;
  static constexpr std::size_t nothing = static_cast<std::size_t>(-1);
};

}  // namespace weir::checkpoint
