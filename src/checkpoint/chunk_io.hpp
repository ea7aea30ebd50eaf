// chunk_io.hpp: the elements of arrays on their way to and from the file.
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

/// One rank's piece of an array on its way to the file.
struct OutgoingArray {
  std::int64_t element_bytes = 0, chunk_elements = 0;
  std::span<const std::byte> elements;
  std::vector<Chunk> chunks;          ///< addresses once they are known
  std::vector<std::byte> compressed;  ///< all chunks, one behind the other; empty: they are in `elements`

  /// What goes to the file for chunk number `chunk`.
  [[nodiscard]] std::span<const std::byte> bytes_of(std::size_t chunk) const;
};
/// Compresses with deflate (0: not at all) and takes checksums.
void prepare(OutgoingArray& array, std::int64_t compression);
/// Writes all chunks to their addresses. Returns the bytes written.
std::int64_t write(const File& file, const OutgoingArray& array);

/// Reads pieces of arrays, and throws Error(WEIR_ERR_FILE) naming file, dataset and rank where a chunk is not as it was written.
class ChunkReader {
 public:
  /// All outlive it.
  ChunkReader(const File& file, const Index& index, const Subject& subject, const Dataset& dataset);
  /// Elements [first, first + count) of the piece of `rank`.
  void read(std::size_t rank, std::int64_t first, std::int64_t count, std::byte* to);
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_; }

 private:
  void check(std::size_t rank, std::size_t chunk, std::span<const std::byte> bytes) const;
  /// The elements of one chunk, which stay until another one is read.
  std::span<const std::byte> chunk(std::size_t rank, std::int64_t number);
  /// Whole chunks that lie one behind the other, right where they belong.
  void read_run(std::size_t rank, std::int64_t first, std::int64_t last, std::byte* to);

  const File& file_;
  const Index& index_;
  const Subject& subject_;
  const Dataset& dataset_;
  std::vector<std::size_t> first_chunks_;  // of each rank
  std::vector<std::byte> stored_, elements_;
  std::size_t held_ = nothing;  // the chunk in elements_
  std::int64_t bytes_read_ = 0;
  static constexpr std::size_t nothing = static_cast<std::size_t>(-1);
};

}  // namespace weir::checkpoint
