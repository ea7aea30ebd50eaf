#include "checkpoint/whole_file.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/buffer.hpp"
#include "base/error.hpp"
#include "checkpoint/chunk_io.hpp"
#include "checkpoint/hdf5_file.hpp"

namespace weir::checkpoint {
namespace {

// The seal has little-endian words of 8 bytes: the begin and length of each extent of the structure, then this tail.
struct Tail {
  std::int64_t file_bytes;  // without the seal
  std::int64_t extents;
  std::uint64_t structure;  // checksum of all extents, one after the other
  std::uint64_t seal;       // checksum of the seal up to this word
  std::int64_t version;
  std::array<char, 8> magic;
};
constexpr std::int64_t seal_version = 1;
constexpr std::array<char, 8> magic = {'W', 'E', 'I', 'R', 'S', 'E', 'A', 'L'};
constexpr std::string_view hdf5_magic = "\x89HDF\r\n\x1a\n";

template <class T>
std::span<std::byte> bytes_of(T& x) {
  return std::as_writable_bytes(std::span(&x, 1));
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::int64_t seal_bytes(std::size_t extents) { return static_cast<std::int64_t>(extents * sizeof(Extent) + sizeof(Tail)); }

void write_sealed(const File& file, const Structure& structure) {
  const std::span<const Extent> extents = structure.extents;
  structure.write_extents([&](std::int64_t address, std::span<const std::byte> bytes) { file.write_at(address, bytes); });
  std::vector<std::byte> all(extents.size_bytes() + sizeof(Tail));
  Tail tail{structure.file_bytes, static_cast<std::int64_t>(extents.size()), checksum(structure.bytes), 0, seal_version, magic};
  if (!extents.empty()) std::memcpy(all.data(), extents.data(), extents.size_bytes());
  std::memcpy(all.data() + extents.size_bytes(), &tail, sizeof tail);
  tail.seal = checksum(std::span(all).first(extents.size_bytes() + offsetof(Tail, seal)));
  std::memcpy(all.data() + extents.size_bytes(), &tail, sizeof tail);
  file.write_at(structure.file_bytes, all);
}

Structure read_sealed(const File& file) {
  const std::int64_t size = file.size();
  std::array<char, 8> first{};
  if (size >= 8) file.read_at(0, bytes_of(first));
  if (std::string_view(first.data(), 8) != hdf5_magic)
    fail(WEIR_ERR_FILE, "{} is no HDF5 file: it does not begin with HDF5's signature", file.path());
  const auto damaged = [&](std::string_view why) { fail(WEIR_ERR_FILE, "{} is damaged, or no checkpoint: {}", file.path(), why); };
  Tail tail{};
  if (size < static_cast<std::int64_t>(sizeof tail)) damaged("it is too short");
  file.read_at(size - static_cast<std::int64_t>(sizeof tail), bytes_of(tail));
  if (tail.magic != magic) damaged("it does not end with a seal: it is truncated, or was changed by another program");
  if (tail.version != seal_version)
    fail(WEIR_ERR_FILE, "{} has a seal of version {}: this library reads version {}; a newer Weir has written it, or it is damaged",
         file.path(), tail.version, seal_version);
  const std::int64_t extent_bytes = size - tail.file_bytes - static_cast<std::int64_t>(sizeof tail);
  if (tail.file_bytes < 8 || tail.file_bytes > size || tail.extents < 0 ||
      extent_bytes != tail.extents * static_cast<std::int64_t>(sizeof(Extent)))
    damaged("its seal does not fit its length");
  std::vector<std::byte> seal(static_cast<std::size_t>(extent_bytes) + offsetof(Tail, seal));
  file.read_at(tail.file_bytes, seal);
  if (checksum(seal) != tail.seal) damaged("its seal was changed");
  Structure structure{.file_bytes = tail.file_bytes};
  structure.extents.resize(static_cast<std::size_t>(tail.extents));
  if (extent_bytes > 0) std::memcpy(structure.extents.data(), seal.data(), static_cast<std::size_t>(extent_bytes));
  std::int64_t bytes = 0;
  for (const Extent& e : structure.extents) {
    if (e.begin < 0 || e.bytes < 0 || e.bytes > tail.file_bytes || e.begin > tail.file_bytes - e.bytes)
      damaged("its seal names places outside it");
    bytes += e.bytes;
  }
  if (bytes > tail.file_bytes) damaged("its seal names places twice");
  structure.read_extents([&](std::int64_t address, std::span<std::byte> to) { file.read_at(address, to); });
  if (checksum(structure.bytes) != tail.structure)
    damaged("the checksum of its structure (groups, attributes, small values) does not fit: it was changed after it was written");
  return structure;
}

Index read_whole(const std::string& path) { return read_structure(path, read_sealed(File::open_to_read(path))); }

Index reseal(const std::string& path) {
  const Index index = find_chunks(path, true);
  const File file = File::open_to_write(path);
  Structure structure{.file_bytes = file.size(), .extents = structure_of(index, file.size())};
  structure.read_extents([&](std::int64_t address, std::span<std::byte> to) { file.read_at(address, to); });
  write_sealed(file, structure);
  file.sync();
  return index;
}

void verify_chunks(const std::string& path, const Index& index, const std::function<void(std::int64_t)>& progressed) {
  constexpr std::int64_t at_once = std::int64_t{1} << 24;
  const File file = File::open_to_read(path);
  std::int64_t done = 0;
  for (const Subject& subject : index.subjects) {
    for (const Dataset& dataset : subject.datasets) {
      if (!dataset.chunked) continue;
      ChunkReader reader(file, index, subject, dataset);
      const std::int64_t elements = std::max(dataset.chunk_elements, at_once / dataset.element_bytes());
      Buffer<std::byte> bytes(elements * dataset.element_bytes());
      for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
        for (std::int64_t first = 0; first < dataset.pieces[rank].count; first += elements) {
          reader.read(rank, first, std::min(elements, dataset.pieces[rank].count - first), bytes.data());
          progressed(done + reader.bytes_read());
        }
      }
      done += reader.bytes_read();
    }
  }
}

}  // namespace weir::checkpoint
