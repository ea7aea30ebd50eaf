#include <algorithm>
#include <span>
#include <vector>

#include "checkpoint/file_image.hpp"
#include "checkpoint/hdf5_file.hpp"

namespace weir::checkpoint {
namespace {

using hdf5::check;
using hdf5::Id;

/// Returns the HDF5 type of elements, which is the same in the file and in memory. The file is little-endian.
hid_t type_of(StateType type) {
  const std::array types = {H5T_STD_U8LE,   H5T_STD_I32LE,  H5T_STD_I64LE, H5T_STD_U32LE, H5T_STD_U64LE,
                            H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_U8LE,  H5T_STD_U8LE};  // by StateType
  return types[static_cast<std::size_t>(type)];
}

Id space_of(std::initializer_list<std::int64_t> extents) {
  std::vector<hsize_t> dims;
  for (const std::int64_t extent : extents) dims.push_back(static_cast<hsize_t>(extent));
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose, "describe an extent"};
}

Id string_type(std::size_t length) {
  Id type(H5Tcopy(H5T_C_S1), H5Tclose, "make a type");
  H5Tset_size(type, std::max<std::size_t>(1, length));
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return type;
}

void write_attribute(hid_t object, const std::string& name, hid_t type, hid_t space, const void* data) {
  const Id attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                     fmt::format("make attribute '{}'", name));
  if (data != nullptr) check(H5Awrite(attribute, type, data), fmt::format("write attribute '{}'", name));  // null: no elements
}

void write_attribute(hid_t object, const std::string& name, const Value& value) {
  const Id scalar(H5Screate(H5S_SCALAR), H5Sclose, "describe a scalar");
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) {
    write_attribute(object, name, H5T_STD_I64LE, scalar, integer);
  } else if (const auto* const real = std::get_if<double>(&value)) {
    write_attribute(object, name, H5T_IEEE_F64LE, scalar, real);
  } else {
    // Other programs read variable-length strings as text, and fixed-length strings as bytes.
    const Id type(H5Tcopy(H5T_C_S1), H5Tclose, "make a type");
    H5Tset_size(type, H5T_VARIABLE);
    H5Tset_cset(type, H5T_CSET_UTF8);
    const char* const text = std::get<std::string>(value).c_str();
    write_attribute(object, name, type, scalar, &text);
  }
}

void write_attributes(hid_t object, const Values& values) {
  for (const auto& [name, value] : values) write_attribute(object, name, value);
}

void write_attribute(hid_t object, const std::string& name, std::span<const std::int64_t> numbers, std::int64_t columns) {
  const auto rows = static_cast<std::int64_t>(numbers.size()) / columns;
  const Id space = columns == 1 ? space_of({rows}) : space_of({rows, columns});
  write_attribute(object, name, H5T_STD_I64LE, space, numbers.empty() ? nullptr : numbers.data());
}

/// Returns the ranks that need a row. In parts of one whole, each of which has its own region, ranks without elements need none:
/// with hundreds of ranks, empty rows would take more room than small arrays.
std::vector<std::size_t> rows_of(const Dataset& dataset) {
  const Region& first = dataset.pieces.front().region;
  const bool of_one_whole =
      dataset.chunked && dataset.share == Share::block &&
      std::all_of(dataset.pieces.begin(), dataset.pieces.end(), [&](const Piece& piece) {
        return piece.present() && piece.region.whole_rows == first.whole_rows && piece.region.whole_columns == first.whole_columns;
      });
  std::vector<std::size_t> rows;
  for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
    if (!of_one_whole || dataset.pieces[rank].count > 0) rows.push_back(rank);
  }
  if (rows.empty()) rows.push_back(0);
  return rows;
}

/// Writes the attributes that describe the pieces of a dataset and how it is redistributed.
void describe(hid_t object, const Dataset& dataset) {
  write_attribute(object, "share", Value(std::string(share_names[static_cast<std::size_t>(dataset.share)])));
  write_attribute(object, "type", Value(std::string(state_type_name(dataset.type))));
  std::vector<std::int64_t> counts, regions;
  for (const std::size_t rank : dataset.rows) {
    const auto& [count, r] = dataset.pieces[rank];
    counts.push_back(count);
    regions.insert(regions.end(), {r.first_row, r.rows, r.first_column, r.columns, r.whole_rows, r.whole_columns});
  }
  write_attribute(object, "counts", counts, 1);
  if (dataset.share != Share::each && dataset.share != Share::layout) write_attribute(object, "regions", regions, 6);
  if (dataset.rows.size() < dataset.pieces.size())
    write_attribute(object, "rows", std::vector<std::int64_t>(dataset.rows.begin(), dataset.rows.end()), 1);
}

Id make_dataset(hid_t group, const Dataset& dataset, hid_t type, hid_t space, hid_t how) {
  const Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "make a list");
  H5Pset_create_intermediate_group(links, 1);
  return {H5Dcreate2(group, dataset.name.c_str(), type, space, links, how, H5P_DEFAULT), H5Dclose,
          fmt::format("make dataset '{}'", dataset.name)};
}

void write_small(hid_t group, const Dataset& dataset) {
  const auto ranks = static_cast<std::int64_t>(dataset.pieces.size());
  const std::int64_t row = dataset.largest_piece();
  const bool text = dataset.type == StateType::text;
  const Id type = text ? string_type(static_cast<std::size_t>(row)) : Id(H5Tcopy(type_of(dataset.type)), H5Tclose, "make a type");
  const Id space = text || row == 1 ? space_of({ranks}) : space_of({ranks, row});
  const Id data = make_dataset(group, dataset, type, space, H5P_DEFAULT);
  if (row > 0)
    check(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset.values.data()),
          fmt::format("write dataset '{}'", dataset.name));
  describe(data, dataset);
}

std::int64_t address_of(hid_t data, std::size_t row, std::int64_t element, std::string_view name) {
  const std::array<hsize_t, 2> offset = {row, static_cast<hsize_t>(element)};
  unsigned mask = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t size = 0;
  check(H5Dget_chunk_info_by_coord(data, offset.data(), &mask, &address, &size), fmt::format("find the chunks of '{}'", name));
  if (address == HADDR_UNDEF) fail(WEIR_ERR_FILE, "the HDF5 library has made no room for '{}'", name);
  return static_cast<std::int64_t>(address);
}

/// Allocates chunk by chunk by giving the library zeros. Compressed chunks differ in size.
void place_each(hid_t data, Dataset& dataset, FileImage& image, bool compressed) {
  std::vector<std::byte> zeros;
  dataset.for_chunks([&](Chunk& chunk, const Dataset::ChunkPlace& at) {
    if (!compressed) chunk.bytes = at.count * dataset.element_bytes();
    const std::int64_t room = compressed ? chunk.bytes : dataset.chunk_elements * dataset.element_bytes();
    zeros.resize(std::max(zeros.size(), static_cast<std::size_t>(room)));
    const std::array<hsize_t, 2> offset = {at.row, static_cast<hsize_t>(at.first)};
    image.forget_writes(true);
    check(H5Dwrite_chunk(data, H5P_DEFAULT, 0, offset.data(), static_cast<std::size_t>(room), zeros.data()),
          fmt::format("make room for '{}'", dataset.name));
    image.forget_writes(false);
    chunk.address = address_of(data, at.row, at.first, dataset.name);
    dataset.room.push_back({chunk.address, room});
  });
}

/// Returns whether giving every row as many chunks as the longest row would waste more than a few per cent.
bool wastes_room(const Dataset& dataset) {
  const auto rows = static_cast<std::int64_t>(dataset.rows.size());
  const std::int64_t all = rows * chunks_for(dataset.largest_piece(), dataset.chunk_elements);
  return 100 * (all - static_cast<std::int64_t>(dataset.chunks.size())) > 3 * all;
}

/// Computes addresses. The library stores unfiltered chunks contiguously, row by row, with as many in each row as the longest
/// needs.
void place(hid_t data, Dataset& dataset) {
  const std::int64_t first = address_of(data, 0, 0, dataset.name);
  const std::int64_t in_row = chunks_for(dataset.largest_piece(), dataset.chunk_elements);
  const std::int64_t room = dataset.chunk_elements * dataset.element_bytes();
  dataset.room = {{first, static_cast<std::int64_t>(dataset.rows.size()) * in_row * room}};
  dataset.for_chunks([&](Chunk& chunk, const Dataset::ChunkPlace& at) {
    chunk.address = first + (static_cast<std::int64_t>(at.row) * in_row + at.number) * room;
    chunk.bytes = at.count * dataset.element_bytes();
  });
}

void write_chunked(hid_t group, const Index& index, Dataset& dataset, FileImage& image) {
  const std::int64_t row = dataset.largest_piece();
  const Id space = space_of({static_cast<std::int64_t>(dataset.rows.size()), row});
  const bool compressed = index.compression > 0, one_by_one = compressed || wastes_room(dataset);
  const Id how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a list");
  if (row > 0) {
    const std::array<hsize_t, 2> chunk = {1, static_cast<hsize_t>(dataset.chunk_elements)};
    H5Pset_chunk(how, 2, chunk.data());
    H5Pset_fill_time(how, one_by_one ? H5D_FILL_TIME_IFSET : H5D_FILL_TIME_NEVER);
    H5Pset_alloc_time(how, one_by_one ? H5D_ALLOC_TIME_INCR : H5D_ALLOC_TIME_EARLY);
    if (compressed) {
      H5Pset_shuffle(how);
      check(H5Pset_deflate(how, static_cast<unsigned>(index.compression)), "compress: it was built without zlib");
    }
  }
  const Id data = make_dataset(group, dataset, type_of(dataset.type), space, how);
  if (row > 0 && one_by_one)
    place_each(data, dataset, image, compressed);
  else if (row > 0)
    place(data, dataset);
  describe(data, dataset);
  write_attribute(data, "chunks", dataset.chunk_numbers(), 3);
  write_attribute(data, "chunk_elements", Value(dataset.chunk_elements));
}

Id make_group(hid_t parent, const std::string& name) {
  return {H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, fmt::format("make group '{}'", name)};
}

}  // namespace

Structure lay_out(Index& index) {
  const std::lock_guard lock(hdf5::one_at_a_time);
  const hdf5::Quiet quiet;
  FileImage image;
  Id file(H5Fcreate("checkpoint", H5F_ACC_TRUNC, H5P_DEFAULT, image.access_list()), H5Fclose, "make a file in memory");
  write_attribute(file, schema_name, Value(schema_version));
  write_attributes(file, {{"step", index.step},
                          {"ranks", static_cast<std::int64_t>(index.ranks())},
                          {"compression", index.compression},
                          {"run", index.run},
                          {"written", index.written},
                          {"weir", index.weir}});
  write_attribute(file, "nodes", index.nodes, 1);
  write_attribute(file, "switches", index.switches, 1);
  write_attributes(make_group(file, "values"), index.values);
  for (const Kind kind : kinds) {
    const Id group = make_group(file, std::string(group_of(kind)));
    for (Subject& subject : index.subjects) {
      if (subject.kind != kind) continue;
      const Id own = make_group(group, subject.name);
      write_attributes(own, subject.about);
      for (Dataset& dataset : subject.datasets) {
        dataset.rows = rows_of(dataset);
        if (dataset.chunked)
          write_chunked(own, index, dataset, image);
        else
          write_small(own, dataset);
      }
    }
  }
  file.close("lay out a file in memory");
  Structure structure{.file_bytes = image.allocated, .extents = structure_of(index, image.allocated)};
  // Nothing in the file refers to the seal, and the library truncates what lies beyond the end that it knows.
  image.written = image.allocated;
  Id again(H5Fopen("checkpoint", H5F_ACC_RDWR, image.access_list()), H5Fclose, "open a file in memory");
  image.allocated += seal_bytes(structure.extents.size());
  again.close("lay out a file in memory");
  structure.read_extents([&](std::int64_t address, std::span<std::byte> to) { image.read(address, to); });
  return structure;
}

}  // namespace weir::checkpoint
