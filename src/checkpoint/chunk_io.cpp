#include "checkpoint/chunk_io.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "checkpoint/seal.hpp"

namespace weir::checkpoint {
namespace {

constexpr std::int64_t most_in_cache = std::int64_t{1} << 20;  // so that data is still in the cache for its checksum
constexpr std::size_t written_at_once = std::size_t{1} << 23;

/// Applies HDF5's shuffle filter: the first bytes of all elements, then the second bytes, and so on.
void shuffle_bytes(std::span<const std::byte> from, std::span<std::byte> to, std::size_t element) {
  const std::size_t count = from.size() / element;
  for (std::size_t byte = 0; byte < element; ++byte) {
    for (std::size_t i = 0; i < count; ++i) to[byte * count + i] = from[i * element + byte];
  }
}
void unshuffle_bytes(std::span<const std::byte> from, std::span<std::byte> to, std::size_t element) {
  const std::size_t count = from.size() / element;
  for (std::size_t byte = 0; byte < element; ++byte) {
    for (std::size_t i = 0; i < count; ++i) to[i * element + byte] = from[byte * count + i];
  }
}

/// Appends one chunk, padded with zeros, as HDF5's filters write it.
void compress(std::span<const std::byte> elements, std::size_t whole, std::size_t element, int level, std::vector<std::byte>& out) {
  std::vector<std::byte> filled(whole), shuffled(whole);
  std::copy(elements.begin(), elements.end(), filled.begin());
  shuffle_bytes(filled, shuffled, element);
  uLongf bytes = compressBound(static_cast<uLong>(whole));
  const std::size_t before = out.size();
  out.resize(before + bytes);
  const int result = compress2(reinterpret_cast<Bytef*>(out.data() + before), &bytes,
                               reinterpret_cast<const Bytef*>(shuffled.data()), static_cast<uLong>(whole), level);
  if (result != Z_OK) fail(WEIR_ERR_INTERNAL, "zlib cannot compress: error {}", result);
  out.resize(before + bytes);
}

}  // namespace

std::span<const std::byte> OutgoingArray::bytes_of(std::size_t chunk) const {
  if (compressed.empty()) {
    const std::size_t first = chunk * static_cast<std::size_t>(chunk_elements * element_bytes);
    return elements.subspan(first, static_cast<std::size_t>(chunks[chunk].bytes));
  }
  std::size_t first = 0;
  for (std::size_t c = 0; c < chunk; ++c) first += static_cast<std::size_t>(chunks[c].bytes);
  return std::span(compressed).subspan(first, static_cast<std::size_t>(chunks[chunk].bytes));
}

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
  std::int64_t written = 0;
  for (std::size_t c = 0; c < array.chunks.size();) {
    const std::span<const std::byte> first = array.bytes_of(c);
    const std::int64_t address = array.chunks[c].address;
    std::size_t bytes = first.size();
    for (++c; c < array.chunks.size() && array.chunks[c].address == address + static_cast<std::int64_t>(bytes); ++c)
      bytes += static_cast<std::size_t>(array.chunks[c].bytes);
    // Write in pieces: ranks that write to one file take turns, and the disk works meanwhile.
    for (std::size_t done = 0; done < bytes; done += written_at_once) {
      const std::size_t piece = std::min(written_at_once, bytes - done);
      const std::int64_t at = address + static_cast<std::int64_t>(done);
      file.write_at(at, {first.data() + done, piece});
      file.begin_sync(at, static_cast<std::int64_t>(piece));
    }
    written += static_cast<std::int64_t>(bytes);
  }
  return written;
}

ChunkReader::ChunkReader(const File& file, const Index& index, const Subject& subject, const Dataset& dataset)
    : file_(file), index_(index), subject_(subject), dataset_(dataset) {
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
    first_chunks_.push_back(first);
    first += static_cast<std::size_t>(dataset.chunks_of(rank));
  }
}

void ChunkReader::check(std::size_t rank, std::size_t chunk, std::span<const std::byte> bytes) const {
  if (checksum(bytes) == dataset_.chunks[chunk].checksum) return;
  fail(WEIR_ERR_FILE,
       "{} is damaged: dataset {}/{} of rank {} was changed after it was written: the checksum of bytes {} to {} does not fit",
       file_.path(), subject_.path(), dataset_.name, rank, dataset_.chunks[chunk].address,
       dataset_.chunks[chunk].address + dataset_.chunks[chunk].bytes);
}

std::span<const std::byte> ChunkReader::chunk(std::size_t rank, std::int64_t number) {
  const std::size_t at = first_chunks_[rank] + static_cast<std::size_t>(number);
  if (at == held_) return elements_;
  held_ = nothing;
  const Chunk& chunk = dataset_.chunks[at];
  const std::int64_t count = dataset_.elements_of(rank, number).second;
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
    unshuffle_bytes(shuffled, elements_, static_cast<std::size_t>(dataset_.element_bytes()));
  }
  elements_.resize(static_cast<std::size_t>(count * dataset_.element_bytes()));
  held_ = at;
  return elements_;
}

void ChunkReader::read_run(std::size_t rank, std::int64_t first, std::int64_t last, std::byte* to) {
  const std::size_t begin = first_chunks_[rank] + static_cast<std::size_t>(first);
  const std::size_t end = first_chunks_[rank] + static_cast<std::size_t>(last);
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
  for (std::int64_t at = first; at < first + count;) {
    const std::int64_t number = at / dataset_.chunk_elements;
    const auto [chunk_first, chunk_count] = dataset_.elements_of(rank, number);
    if (index_.compression == 0 && at == chunk_first && at + chunk_count <= first + count) {
      std::int64_t last = number, end = at;
      while (end < first + count && last < dataset_.chunks_of(rank)) {
        const auto [next, next_count] = dataset_.elements_of(rank, last);
        if (next + next_count > first + count) break;
        end = next + next_count;
        ++last;
      }
      read_run(rank, number, last, to + (at - first) * element);
      at = end;
      continue;
    }
    const std::span<const std::byte> elements = chunk(rank, number);
    const std::int64_t end = std::min(first + count, chunk_first + chunk_count);
    std::memcpy(to + (at - first) * element, elements.data() + (at - chunk_first) * element,
                static_cast<std::size_t>((end - at) * element));
    at = end;
  }
}

}  // namespace weir::checkpoint
