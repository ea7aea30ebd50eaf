#include "checkpoint/chunk_io.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "checkpoint/whole_file.hpp"

namespace weir::checkpoint {
namespace {

constexpr std::int64_t most_in_cache = std::int64_t{1} << 20;  // so that data is still in the cache for its checksum
constexpr std::size_t written_at_once = std::size_t{1} << 23;

/// Writes a matrix of `rows` x `columns` bytes with rows and columns exchanged. HDF5's shuffle filter: the first bytes of all
/// elements, then the second bytes, and so on.
void transpose(std::span<const std::byte> from, std::span<std::byte> to, std::size_t rows, std::size_t columns) {
  for (std::size_t column = 0; column < columns; ++column) {
    for (std::size_t row = 0; row < rows; ++row) to[column * rows + row] = from[row * columns + column];
  }
}

/// Appends one chunk, padded with zeros, as HDF5's filters write it.
void compress(std::span<const std::byte> elements, std::size_t whole, std::size_t element, int level, std::vector<std::byte>& out) {
  std::vector<std::byte> filled(whole), shuffled(whole);
  std::copy(elements.begin(), elements.end(), filled.begin());
  transpose(filled, shuffled, whole / element, element);
  uLongf bytes = compressBound(static_cast<uLong>(whole));
  const std::size_t before = out.size();
  out.resize(before + bytes);
  const int result = compress2(reinterpret_cast<Bytef*>(out.data() + before), &bytes,
                               reinterpret_cast<const Bytef*>(shuffled.data()), static_cast<uLong>(whole), level);
  if (result != Z_OK) fail(WEIR_ERR_INTERNAL, "zlib cannot compress: error {}", result);
  out.resize(before + bytes);
}

}  // namespace

void prepare(OutgoingArray& array, std::int64_t compression) {
  const auto whole = static_cast<std::size_t>(array.chunk_elements * array.element_bytes);
  array.chunks.clear();
  array.compressed.clear();
  for (std::size_t first = 0; first < array.elements.size(); first += whole) {
    const std::span<const std::byte> elements = array.elements.subspan(first, std::min(whole, array.elements.size() - first));
    if (compression == 0) {
      array.chunks.push_back({0, static_cast<std::int64_t>(elements.size()), checksum(elements)});
      continue;
    }
    const std::size_t before = array.compressed.size();
    compress(elements, whole, static_cast<std::size_t>(array.element_bytes), static_cast<int>(compression), array.compressed);
    const std::span<const std::byte> stored = std::span<const std::byte>(array.compressed).subspan(before);
    array.chunks.push_back({0, static_cast<std::int64_t>(stored.size()), checksum(stored)});
  }
}

std::int64_t write(const File& file, const OutgoingArray& array) {
  const std::byte* const first = array.compressed.empty() ? array.elements.data() : array.compressed.data();
  std::int64_t written = 0;
  for (std::size_t c = 0; c < array.chunks.size();) {
    const std::int64_t address = array.chunks[c].address;
    auto bytes = static_cast<std::size_t>(array.chunks[c].bytes);
    for (++c; c < array.chunks.size() && array.chunks[c].address == address + static_cast<std::int64_t>(bytes); ++c)
      bytes += static_cast<std::size_t>(array.chunks[c].bytes);
    // Write in pieces: ranks that write to one file take turns, and the disk works meanwhile.
    for (std::size_t done = 0; done < bytes; done += written_at_once) {
      const std::size_t piece = std::min(written_at_once, bytes - done);
      const std::int64_t at = address + static_cast<std::int64_t>(done);
      file.write_at(at, {first + written + done, piece});
      file.begin_sync(at, static_cast<std::int64_t>(piece));
    }
    written += static_cast<std::int64_t>(bytes);
  }
  return written;
}

void ChunkReader::check(std::size_t rank, std::size_t chunk, std::span<const std::byte> bytes) const {
  if (checksum(bytes) == dataset_.chunks[chunk].checksum) return;
  fail(WEIR_ERR_FILE,
       "{} is damaged: dataset {}/{} of rank {} was changed after it was written: the checksum of bytes {} to {} does not fit",
       file_.path(), subject_.path(), dataset_.name, rank, dataset_.chunks[chunk].address,
       dataset_.chunks[chunk].address + dataset_.chunks[chunk].bytes);
}

std::span<const std::byte> ChunkReader::chunk(std::size_t rank, std::size_t at, std::int64_t count) {
  if (at == held_) return elements_;
  held_ = nothing;
  const Chunk& chunk = dataset_.chunks[at];
  stored_.resize(static_cast<std::size_t>(chunk.bytes));
  file_.read_at(chunk.address, stored_);
  bytes_read_ += chunk.bytes;
  check(rank, at, stored_);
  if (index_.compression == 0) {
    std::swap(elements_, stored_);
  } else {
    std::vector<std::byte> shuffled(static_cast<std::size_t>(dataset_.chunk_elements * dataset_.element_bytes()));
    uLongf bytes = shuffled.size();
    const int result = uncompress(reinterpret_cast<Bytef*>(shuffled.data()), &bytes, reinterpret_cast<const Bytef*>(stored_.data()),
                                  static_cast<uLong>(stored_.size()));
    if (result != Z_OK || bytes != shuffled.size())
      fail(WEIR_ERR_FILE, "{} is damaged: a chunk of dataset {}/{} of rank {} cannot be decompressed", file_.path(),
           subject_.path(), dataset_.name, rank);
    elements_.resize(shuffled.size());
    transpose(shuffled, elements_, static_cast<std::size_t>(dataset_.element_bytes()),
              static_cast<std::size_t>(dataset_.chunk_elements));
  }
  elements_.resize(static_cast<std::size_t>(count * dataset_.element_bytes()));
  held_ = at;
  return elements_;
}

void ChunkReader::read_run(std::size_t rank, std::size_t begin, std::size_t end, std::byte* to) {
  for (std::size_t c = begin; c < end;) {
    const std::size_t run = c;
    std::int64_t bytes = dataset_.chunks[c].bytes;
    for (++c; c < end && bytes < most_in_cache && dataset_.chunks[c].address == dataset_.chunks[run].address + bytes; ++c)
      bytes += dataset_.chunks[c].bytes;
    file_.read_at(dataset_.chunks[run].address, {to, static_cast<std::size_t>(bytes)});
    bytes_read_ += bytes;
    for (std::size_t i = run; i < c; ++i) {
      const auto size = static_cast<std::size_t>(dataset_.chunks[i].bytes);
      check(rank, i, {to, size});
      to += size;
    }
  }
}

void ChunkReader::read(std::size_t rank, std::int64_t first, std::int64_t count, std::byte* to) {
  const std::int64_t element = dataset_.element_bytes();
  const std::size_t own = dataset_.first_chunk(rank);
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t number = at / dataset_.chunk_elements;
    const auto [chunk_first, chunk_count] = dataset_.elements_of(rank, number);
    if (index_.compression == 0 && at == chunk_first && at + chunk_count <= first + count) {
      // Read all chunks that are wanted whole. The last one of the piece may have fewer elements.
      const bool to_end = first + count == dataset_.pieces[rank].count;
      const std::int64_t last = to_end ? dataset_.chunks_of(rank) : (first + count) / dataset_.chunk_elements;
      const std::int64_t end = to_end ? first + count : last * dataset_.chunk_elements;
      read_run(rank, own + number, own + last, to + (at - first) * element);
      at = end;
      continue;
    }
    const std::span<const std::byte> elements = chunk(rank, own + number, chunk_count);
    const std::int64_t end = std::min(first + count, chunk_first + chunk_count);
    std::memcpy(to + (at - first) * element, elements.data() + (at - chunk_first) * element,
                static_cast<std::size_t>((end - at) * element));
    at = end;
  }
}

}  // namespace weir::checkpoint
