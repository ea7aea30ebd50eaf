#include "checkpoint/hdf5_file.hpp"

#include <hdf5.h>

#include <algorithm>
#include <mutex>

#include "base/error.hpp"
#include "checkpoint/file_image.hpp"

namespace weir::checkpoint {
namespace {

constexpr hsize_t alignment = 4096;
constexpr const char* schema_name = "weir_checkpoint_schema";

/// The library need not be made for threads; nor do virtual ranks of one process share a rank.
std::mutex one_at_a_time;

/// An identifier of the library, closed at its end.
class Id {
 public:
  Id(hid_t id, herr_t (*close_with)(hid_t), std::string_view doing) : id_(id), close_(close_with) {
    if (id_ < 0) fail(WEIR_ERR_FILE, "the HDF5 library cannot {}", doing);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  Id(Id&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  ~Id() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }  // NOLINT(google-explicit-constructor): it is what every call takes
  /// Throws where closing fails, as that of a file does on a full disk.
  void close(std::string_view doing) {
    if (close_(std::exchange(id_, -1)) < 0) fail(WEIR_ERR_FILE, "the HDF5 library cannot {}", doing);
  }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

void check(herr_t result, std::string_view doing) {
  if (result < 0) fail(WEIR_ERR_FILE, "the HDF5 library cannot {}", doing);
}

/// Errors are told by exceptions: the library does not print its stack meanwhile.
class Quiet {
 public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

/// Of elements in the file, which is little-endian, and in memory.
hid_t type_of(StateType type) {
  switch (type) {
    case StateType::boolean:
    case StateType::uint8:
    case StateType::text:
      return H5T_STD_U8LE;
    case StateType::int32:
      return H5T_STD_I32LE;
    case StateType::int64:
      return H5T_STD_I64LE;
    case StateType::uint32:
      return H5T_STD_U32LE;
    case StateType::uint64:
      return H5T_STD_U64LE;
    case StateType::float32:
      return H5T_IEEE_F32LE;
    case StateType::float64:
      return H5T_IEEE_F64LE;
  }
  return -1;
}

constexpr std::array share_names = {"each", "agreed", "layout", "summed", "block", "cuts"};

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

// Writing.

void write_attribute(hid_t object, const std::string& name, hid_t type, hid_t space, const void* data) {
  const Id attribute(H5Acreate2(object, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                     fmt::format("make attribute '{}'", name));
  if (data != nullptr) check(H5Awrite(attribute, type, data), fmt::format("write attribute '{}'", name));  // null: it is empty
}

void write_attribute(hid_t object, const std::string& name, const Value& value) {
  const Id scalar(H5Screate(H5S_SCALAR), H5Sclose, "describe a scalar");
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) {
    write_attribute(object, name, H5T_STD_I64LE, scalar, integer);
  } else if (const auto* const real = std::get_if<double>(&value)) {
    write_attribute(object, name, H5T_IEEE_F64LE, scalar, real);
  } else {
    const std::string padded = std::get<std::string>(value) + '\0';
    write_attribute(object, name, string_type(padded.size()), scalar, padded.data());
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

/// What ranks have of a dataset, and how it is divided anew.
void describe(hid_t object, const Dataset& dataset) {
  write_attribute(object, "share", Value(std::string(share_names[static_cast<std::size_t>(dataset.share)])));
  write_attribute(object, "type", Value(std::string(state_type_name(dataset.type))));
  std::vector<std::int64_t> counts, regions;
  for (const Piece& piece : dataset.pieces) {
    counts.push_back(piece.count);
    const Region& r = piece.region;
    regions.insert(regions.end(), {r.first_row, r.rows, r.first_column, r.columns, r.whole_rows, r.whole_columns});
  }
  write_attribute(object, "counts", counts, 1);
  if (dataset.share != Share::each && dataset.share != Share::layout) write_attribute(object, "regions", regions, 6);
}

void write_small(hid_t group, const Dataset& dataset) {
  const auto ranks = static_cast<std::int64_t>(dataset.pieces.size());
  const std::int64_t row = dataset.largest_piece();
  const bool text = dataset.type == StateType::text;
  const Id type = text ? string_type(static_cast<std::size_t>(row)) : Id(H5Tcopy(type_of(dataset.type)), H5Tclose, "make a type");
  const Id space = text || row == 1 ? space_of({ranks}) : space_of({ranks, row});
  const Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "make a list");
  H5Pset_create_intermediate_group(links, 1);
  const Id data(H5Dcreate2(group, dataset.name.c_str(), type, space, links, H5P_DEFAULT, H5P_DEFAULT), H5Dclose,
                fmt::format("make dataset '{}'", dataset.name));
  if (row > 0)
    check(H5Dwrite(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset.values.data()),
          fmt::format("write dataset '{}'", dataset.name));
  describe(data, dataset);
}

haddr_t address_of(hid_t data, std::int64_t row, std::int64_t element, std::string_view name) {
  const std::array<hsize_t, 2> offset = {static_cast<hsize_t>(row), static_cast<hsize_t>(element)};
  unsigned mask = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t size = 0;
  check(H5Dget_chunk_info_by_coord(data, offset.data(), &mask, &address, &size), fmt::format("find the chunks of '{}'", name));
  if (address == HADDR_UNDEF) fail(WEIR_ERR_FILE, "the HDF5 library has made no room for '{}'", name);
  return address;
}

/// Makes room for compressed chunks, whose sizes differ: the library is given zeros in their place.
void place_compressed(hid_t data, Dataset& dataset, FileImage& image) {
  std::vector<std::byte> zeros;
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
    for (std::int64_t c = 0; c < dataset.chunks_of(rank); ++c) {
      Chunk& chunk = dataset.chunks[at++];
      const std::int64_t element = c * dataset.chunk_elements;
      zeros.resize(std::max(zeros.size(), static_cast<std::size_t>(chunk.bytes)));
      const std::array<hsize_t, 2> offset = {rank, static_cast<hsize_t>(element)};
      image.forget_writes(true);
      check(H5Dwrite_chunk(data, H5P_DEFAULT, 0, offset.data(), static_cast<std::size_t>(chunk.bytes), zeros.data()),
            fmt::format("make room for '{}'", dataset.name));
      image.forget_writes(false);
      chunk.address = static_cast<std::int64_t>(address_of(data, static_cast<std::int64_t>(rank), element, dataset.name));
      dataset.room.push_back({chunk.address, chunk.bytes});
    }
  }
}

/// The library lays chunks without filter one behind the other: row by row, as many in each as the longest needs.
void place(hid_t data, Dataset& dataset) {
  const auto first = static_cast<std::int64_t>(address_of(data, 0, 0, dataset.name));
  const std::int64_t in_row = chunks_for(dataset.largest_piece(), dataset.chunk_elements);
  const std::int64_t room = dataset.chunk_elements * dataset.element_bytes();
  dataset.room = {{first, static_cast<std::int64_t>(dataset.pieces.size()) * in_row * room}};
  std::size_t at = 0;
  for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
    for (std::int64_t c = 0; c < dataset.chunks_of(rank); ++c, ++at) {
      dataset.chunks[at].address = first + (static_cast<std::int64_t>(rank) * in_row + c) * room;
      dataset.chunks[at].bytes = dataset.elements_of(rank, c).second * dataset.element_bytes();
    }
  }
}

void write_chunked(hid_t group, const Index& index, Dataset& dataset, FileImage& image) {
  const auto ranks = static_cast<std::int64_t>(dataset.pieces.size());
  const std::int64_t row = dataset.largest_piece();
  const Id space = space_of({ranks, row});
  const Id how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "make a list");
  if (row > 0) {
    const std::array<hsize_t, 2> chunk = {1, static_cast<hsize_t>(dataset.chunk_elements)};
    H5Pset_chunk(how, 2, chunk.data());
    H5Pset_fill_time(how, H5D_FILL_TIME_NEVER);
    H5Pset_alloc_time(how, index.compression > 0 ? H5D_ALLOC_TIME_INCR : H5D_ALLOC_TIME_EARLY);
    if (index.compression > 0) {
      H5Pset_shuffle(how);
      check(H5Pset_deflate(how, static_cast<unsigned>(index.compression)), "compress: it was built without zlib");
    }
  }
  const Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "make a list");
  H5Pset_create_intermediate_group(links, 1);
  const Id data(H5Dcreate2(group, dataset.name.c_str(), type_of(dataset.type), space, links, how, H5P_DEFAULT), H5Dclose,
                fmt::format("make dataset '{}'", dataset.name));
  if (row > 0 && index.compression > 0)
    place_compressed(data, dataset, image);
  else if (row > 0)
    place(data, dataset);
  describe(data, dataset);
  std::vector<std::int64_t> chunks;
  for (const Chunk& chunk : dataset.chunks)
    chunks.insert(chunks.end(), {chunk.address, chunk.bytes, static_cast<std::int64_t>(chunk.checksum)});
  write_attribute(data, "chunks", chunks, 3);
  write_attribute(data, "chunk_elements", Value(dataset.chunk_elements));
}

Id make_group(hid_t parent, const std::string& name) {
  return {H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, fmt::format("make group '{}'", name)};
}

// Reading.

/// Names of what `object` has, groups and datasets, or attributes.
template <class Iterate>
std::vector<std::string> names_in(Iterate&& iterate, std::string_view what) {
  std::vector<std::string> names;
  check(iterate(&names), fmt::format("list {}", what));
  return names;
}
std::vector<std::string> members_of(hid_t group) {
  return names_in(
      [&](void* names) {
        return H5Literate(
            group, H5_INDEX_NAME, H5_ITER_INC, nullptr,
            [](hid_t, const char* name, const H5L_info_t*, void* all) -> herr_t {
              static_cast<std::vector<std::string>*>(all)->emplace_back(name);
              return 0;
            },
            names);
      },
      "a group");
}
std::vector<std::string> attributes_of(hid_t object) {
  return names_in(
      [&](void* names) {
        hsize_t at = 0;
        return H5Aiterate2(
            object, H5_INDEX_NAME, H5_ITER_INC, &at,
            [](hid_t, const char* name, const H5A_info_t*, void* all) -> herr_t {
              static_cast<std::vector<std::string>*>(all)->emplace_back(name);
              return 0;
            },
            names);
      },
      "attributes");
}

Value read_value(hid_t object, const std::string& name) {
  const Id attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, fmt::format("find attribute '{}'", name));
  const Id type(H5Aget_type(attribute), H5Tclose, "read a type");
  switch (H5Tget_class(type)) {
    case H5T_STRING: {
      std::string text(H5Tget_size(type), '\0');
      check(H5Aread(attribute, type, text.data()), fmt::format("read attribute '{}'", name));
      return text.substr(0, text.find('\0'));
    }
    case H5T_FLOAT: {
      double real = 0;
      check(H5Aread(attribute, H5T_NATIVE_DOUBLE, &real), fmt::format("read attribute '{}'", name));
      return real;
    }
    default: {
      std::int64_t integer = 0;
      check(H5Aread(attribute, H5T_NATIVE_INT64, &integer), fmt::format("read attribute '{}'", name));
      return integer;
    }
  }
}
std::int64_t read_integer(hid_t object, const std::string& name) {
  const Value value = read_value(object, name);
  if (const auto* const integer = std::get_if<std::int64_t>(&value)) return *integer;
  fail(WEIR_ERR_FILE, "attribute '{}' is no integer", name);
}
std::string read_text(hid_t object, const std::string& name) {
  const Value value = read_value(object, name);
  if (const auto* const text = std::get_if<std::string>(&value)) return *text;
  fail(WEIR_ERR_FILE, "attribute '{}' is no text", name);
}
Values read_values(hid_t object) {
  Values values;
  for (const std::string& name : attributes_of(object)) values[name] = read_value(object, name);
  return values;
}
std::vector<std::int64_t> read_numbers(hid_t object, const std::string& name) {
  const Id attribute(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, fmt::format("find attribute '{}'", name));
  const Id space(H5Aget_space(attribute), H5Sclose, "read an extent");
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space))));
  if (!numbers.empty()) check(H5Aread(attribute, H5T_NATIVE_INT64, numbers.data()), fmt::format("read attribute '{}'", name));
  return numbers;
}

template <class Names>
std::size_t place_among(const Names& names, std::string_view name, std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) fail(WEIR_ERR_FILE, "{} '{}' is unknown", what, name);
  return static_cast<std::size_t>(found - names.begin());
}

StateType type_named(std::string_view name) {
  constexpr int last = static_cast<int>(StateType::uint8);
  for (int type = 0; type <= last; ++type) {
    if (state_type_name(static_cast<StateType>(type)) == name) return static_cast<StateType>(type);
  }
  fail(WEIR_ERR_FILE, "type '{}' is unknown", name);
}

Dataset read_dataset(hid_t data, std::string name) {
  Dataset dataset;
  dataset.name = std::move(name);
  dataset.type = type_named(read_text(data, "type"));
  dataset.share = static_cast<Share>(place_among(share_names, read_text(data, "share"), "share"));
  for (const std::int64_t count : read_numbers(data, "counts")) dataset.pieces.push_back({count, {}});
  if (H5Aexists(data, "regions") > 0) {
    const std::vector<std::int64_t> r = read_numbers(data, "regions");
    if (r.size() != 6 * dataset.pieces.size()) fail(WEIR_ERR_FILE, "'{}' has regions of other ranks", dataset.name);
    for (std::size_t rank = 0; rank < dataset.pieces.size(); ++rank) {
      const auto at = r.begin() + static_cast<std::ptrdiff_t>(6 * rank);
      dataset.pieces[rank].region = {at[4], at[5], at[0], at[1], at[2], at[3]};
    }
  }
  dataset.chunked = H5Aexists(data, "chunks") > 0;
  if (dataset.chunked) {
    dataset.chunk_elements = read_integer(data, "chunk_elements");
    const std::vector<std::int64_t> c = read_numbers(data, "chunks");
    for (std::size_t at = 0; at + 2 < c.size(); at += 3)
      dataset.chunks.push_back({c[at], c[at + 1], static_cast<std::uint64_t>(c[at + 2])});
    if (dataset.chunk_elements < 1 || dataset.first_chunk(dataset.pieces.size()) != dataset.chunks.size())
      fail(WEIR_ERR_FILE, "'{}' has other chunks than its counts need", dataset.name);
    return dataset;
  }
  const std::int64_t row = dataset.largest_piece();
  dataset.values.resize(dataset.pieces.size() * static_cast<std::size_t>(row * dataset.element_bytes()));
  const Id type(H5Dget_type(data), H5Tclose, "read a type");
  const Id space(H5Dget_space(data), H5Sclose, "read an extent");
  const auto bytes = static_cast<std::size_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space))) * H5Tget_size(type);
  if (row > 0 && bytes != dataset.values.size()) fail(WEIR_ERR_FILE, "'{}' has another size than its counts", dataset.name);
  if (row > 0)
    check(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset.values.data()), fmt::format("read '{}'", dataset.name));
  return dataset;
}

/// All datasets below `group`.
void read_datasets(hid_t group, const std::string& path, std::vector<Dataset>& datasets) {
  for (const std::string& name : members_of(group)) {
    const Id object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose, fmt::format("open '{}'", path + name));
    if (H5Iget_type(object) == H5I_GROUP)
      read_datasets(object, path + name + "/", datasets);
    else
      datasets.push_back(read_dataset(object, path + name));
  }
}

Id access_list(FileImage& image) {
  Id access(image.access_list(), H5Pclose, "make a list");
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_alignment(access, alignment, alignment);
  return access;
}

}  // namespace

bool has_hdf5() { return true; }

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

Structure lay_out(Index& index) {
  const std::lock_guard lock(one_at_a_time);
  const Quiet quiet;
  FileImage image;
  Id file(H5Fcreate("checkpoint", H5F_ACC_TRUNC, H5P_DEFAULT, access_list(image)), H5Fclose, "make a file in memory");
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
        if (dataset.chunked)
          write_chunked(own, index, dataset, image);
        else
          write_small(own, dataset);
      }
    }
  }
  file.close("lay out a file in memory");
  Structure structure{.file_bytes = image.allocated, .extents = structure_of(index, image.allocated)};
  for (const Extent& extent : structure.extents) {
    const std::size_t before = structure.bytes.size();
    structure.bytes.resize(before + static_cast<std::size_t>(extent.bytes));
    image.read(extent.begin, std::span(structure.bytes).subspan(before));
  }
  return structure;
}

Index read_structure(const std::string& path, const Structure& structure) {
  const std::lock_guard lock(one_at_a_time);
  const Quiet quiet;
  FileImage image;
  std::span<const std::byte> bytes = structure.bytes;
  for (const Extent& extent : structure.extents) {
    const auto size = static_cast<std::size_t>(extent.bytes);
    image.write(extent.begin, bytes.first(size));
    bytes = bytes.subspan(size);
  }
  image.written = structure.file_bytes;
  const Id access = access_list(image);
  const Id file(H5Fopen("checkpoint", H5F_ACC_RDONLY, access), H5Fclose, fmt::format("open {}", path));
  if (H5Aexists(file, schema_name) <= 0) fail(WEIR_ERR_FILE, "{} is no checkpoint: it has no attribute '{}'", path, schema_name);
  if (const std::int64_t found = read_integer(file, schema_name); found != schema_version)
    fail(WEIR_ERR_FILE,
         "{} has schema {}: this library reads schema {}; read it with the Weir that has written it, {}, or a later one", path,
         found, schema_version, read_text(file, "weir"));
  try {
    Index index;
    index.step = read_integer(file, "step");
    index.compression = read_integer(file, "compression");
    index.run = read_text(file, "run");
    index.written = read_text(file, "written");
    index.weir = read_text(file, "weir");
    index.nodes = read_numbers(file, "nodes");
    index.switches = read_numbers(file, "switches");
    index.values = read_values(Id(H5Gopen2(file, "values", H5P_DEFAULT), H5Gclose, "open group 'values'"));
    for (const Kind kind : kinds) {
      const std::string name(group_of(kind));
      const Id group(H5Gopen2(file, name.c_str(), H5P_DEFAULT), H5Gclose, fmt::format("open group '{}'", name));
      for (const std::string& subject : members_of(group)) {
        const Id own(H5Gopen2(group, subject.c_str(), H5P_DEFAULT), H5Gclose, fmt::format("open '{}'", subject));
        index.subjects.push_back({kind, subject, read_values(own), {}});
        read_datasets(own, "", index.subjects.back().datasets);
      }
    }
    return index;
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace weir::checkpoint
