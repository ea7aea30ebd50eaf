#include "checkpoint/whole_file.hpp"

#include "base/buffer.hpp"
#include "checkpoint/chunk_io.hpp"
#include "checkpoint/file.hpp"
#include "checkpoint/hdf5_file.hpp"
#include "checkpoint/seal.hpp"

namespace weir::checkpoint {

Index read_whole(const std::string& path) { return read_structure(path, read_sealed(File::open_to_read(path))); }

Index reseal(const std::string& path) {
  const Index index = find_chunks_anew(path);
  const File file = File::open_to_write(path);
  Structure structure{.file_bytes = file.size(), .extents = structure_of(index, file.size())};
  for (const Extent& extent : structure.extents) {
    const std::size_t before = structure.bytes.size();
    structure.bytes.resize(before + static_cast<std::size_t>(extent.bytes));
    file.read_at(extent.begin, std::span(structure.bytes).subspan(before));
  }
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
