#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_image.hpp"
#include "checkpoint/hdf5_file.hpp"

namespace weir::checkpoint {
namespace {

using hdf5::check;
using hdf5::Id;

template <class Info>
herr_t add_name(hid_t /*object*/, const char* name, const Info* /*info*/, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}
/// Return the names of the members (groups and datasets) and of the attributes.
std::vector<std::string> members_of(hid_t group) {
  std::vector<std::string> names;
  check(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, add_name<H5L_info_t>, &names), "list a group");
  return names;
}
std::vector<std::string> attributes_of(hid_t object) {
  std::vector<std::string> names;
  hsize_t at = 0;
  check(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &at, add_name<H5A_info_t>, &names), "list attributes");
  return names;
}

Id attribute_of(hid_t object, const std::string& name) {
  return {H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, fmt::format("find attribute '{}'", name)};
}

Value read_value(hid_t object, const std::string& name) {
  const Id attribute = attribute_of(object, name);
  const Id type(H5Aget_type(attribute), H5Tclose, "read a type");
  const auto read = [&](hid_t as, void* to) { check(H5Aread(attribute, as, to), fmt::format("read attribute '{}'", name)); };
  switch (H5Tget_class(type)) {
    case H5T_STRING: {
      if (H5Tis_variable_str(type) > 0) {
        char* found = nullptr;
        read(type, &found);
        const std::string text = found != nullptr ? found : "";
        H5free_memory(found);
        return text;
      }
      std::string text(H5Tget_size(type), '\0');
      read(type, text.data());
      return text.substr(0, text.find('\0'));
    }
    case H5T_FLOAT: {
      double real = 0;
      read(H5T_NATIVE_DOUBLE, &real);
      return real;
    }
    default: {
      std::int64_t integer = 0;
      read(H5T_NATIVE_INT64, &integer);
      return integer;
    }
  }
}
template <class T>
T read_as(hid_t object, const std::string& name, std::string_view what) {
  Value value = read_value(object, name);
  if (T* const found = std::get_if<T>(&value)) return std::move(*found);
  fail(WEIR_ERR_FILE, "attribute '{}' is no {}", name, what);
}
std::int64_t read_integer(hid_t object, const std::string& name) { return read_as<std::int64_t>(object, name, "integer"); }
std::string read_text(hid_t object, const std::string& name) { return read_as<std::string>(object, name, "text"); }
Values read_values(hid_t object) {
  Values values;
  for (const std::string& name : attributes_of(object)) values[name] = read_value(object, name);
  return values;
}
std::vector<std::int64_t> read_numbers(hid_t object, const std::string& name) {
  const Id attribute = attribute_of(object, name);
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

/// Reads the pieces of all ranks. Ranks without a row have no elements of the whole.
void read_pieces(hid_t data, std::size_t ranks, Dataset& dataset) {
  const std::vector<std::int64_t> counts = read_numbers(data, "counts");
  std::vector<std::int64_t> rows(ranks);
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  if (H5Aexists(data, "rows") > 0) rows = read_numbers(data, "rows");
  const bool ascend = std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end();
  if (rows.size() != counts.size() || rows.empty() || !ascend || rows.front() < 0 ||
      rows.back() >= static_cast<std::int64_t>(ranks))
    fail(WEIR_ERR_FILE, "'{}' has rows of other ranks", dataset.name);
  std::vector<Region> regions(rows.size());
  if (H5Aexists(data, "regions") > 0) {
    const std::vector<std::int64_t> r = read_numbers(data, "regions");
    if (r.size() != 6 * rows.size()) fail(WEIR_ERR_FILE, "'{}' has regions of other ranks", dataset.name);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const std::span<const std::int64_t> at = std::span(r).subspan(6 * row, 6);
      regions[row] = {at[4], at[5], at[0], at[1], at[2], at[3]};
    }
  }
  dataset.rows.assign(rows.begin(), rows.end());
  dataset.pieces.assign(ranks, {0, {.whole_rows = regions[0].whole_rows, .whole_columns = regions[0].whole_columns}});
  for (std::size_t row = 0; row < rows.size(); ++row) dataset.pieces[dataset.rows[row]] = {counts[row], regions[row]};
}

Dataset read_dataset(hid_t data, std::size_t ranks, std::string name) {
  Dataset dataset;
  dataset.name = std::move(name);
  dataset.type = type_named(read_text(data, "type"));
  dataset.share = static_cast<Share>(place_among(share_names, read_text(data, "share"), "share"));
  read_pieces(data, ranks, dataset);
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

/// Appends all datasets below `group`.
void read_datasets(hid_t group, std::size_t ranks, const std::string& path, std::vector<Dataset>& datasets) {
  for (const std::string& name : members_of(group)) {
    const Id object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose, fmt::format("open '{}'", path + name));
    if (H5Iget_type(object) == H5I_GROUP)
      read_datasets(object, ranks, path + name + "/", datasets);
    else
      datasets.push_back(read_dataset(object, ranks, path + name));
  }
}

/// Reads everything that the file states. Throws Error(WEIR_ERR_FILE) naming it.
Index read_index(hid_t file, const std::string& path) {
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
        read_datasets(own, index.ranks(), "", index.subjects.back().datasets);
      }
    }
    return index;
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("{}: {}", path, error.what()));
  }
}

/// Finds the current addresses of a dataset's chunks.
void find_chunks(hid_t data, const std::string& path, const std::string& name, Dataset& dataset) {
  const Id how(H5Dget_create_plist(data), H5Pclose, "read a list");
  std::array<hsize_t, 2> extents{};
  const bool same = H5Pget_layout(how) == H5D_CHUNKED && H5Pget_chunk(how, 2, extents.data()) == 2 && extents[0] == 1 &&
                    extents[1] == static_cast<hsize_t>(dataset.chunk_elements);
  if (!same)
    fail(WEIR_ERR_FILE, "{}: dataset {} has another layout than it was saved with: copy it without changing that", path, name);
  dataset.for_chunks([&](Chunk& chunk, const Dataset::ChunkPlace& at) {
    const std::array<hsize_t, 2> offset = {at.row, static_cast<hsize_t>(at.first)};
    unsigned mask = 0;
    haddr_t address = HADDR_UNDEF;
    hsize_t size = 0;
    check(H5Dget_chunk_info_by_coord(data, offset.data(), &mask, &address, &size), fmt::format("find the chunks of '{}'", name));
    if (address == HADDR_UNDEF || size < static_cast<hsize_t>(chunk.bytes))
      fail(WEIR_ERR_FILE, "{}: dataset {} lacks chunk {} of rank {}, or it was compressed in another way", path, name, at.number,
           at.rank);
    chunk.address = static_cast<std::int64_t>(address);
    dataset.room.push_back({chunk.address, static_cast<std::int64_t>(size)});
  });
}

/// Checks that each chunk is as it was saved, and writes the current addresses to the file.
void record_chunks(hid_t data, const std::string& name, const File& bytes, Dataset& dataset) {
  std::vector<std::byte> content;
  dataset.for_chunks([&](const Chunk& chunk, const Dataset::ChunkPlace& at) {
    content.resize(static_cast<std::size_t>(chunk.bytes));
    bytes.read_at(chunk.address, content);
    if (checksum(content) != chunk.checksum)
      fail(WEIR_ERR_FILE,
           "{}: dataset {}, chunk {} of rank {} is not as it was saved: it was changed, or compressed in another way", bytes.path(),
           name, at.number, at.rank);
  });
  const std::vector<std::int64_t> chunks = dataset.chunk_numbers();
  const Id attribute = attribute_of(data, "chunks");
  check(H5Awrite(attribute, H5T_NATIVE_INT64, chunks.data()), "write attribute 'chunks'");
}

/// Calls visit(HDF5 dataset, its name, its entry in `index`) for all that have chunks.
template <class Visit>
void for_each_chunked(hid_t file, Index& index, Visit&& visit) {
  for (Subject& subject : index.subjects) {
    for (Dataset& dataset : subject.datasets) {
      if (!dataset.chunked || dataset.chunks.empty()) continue;
      const std::string name = subject.path() + "/" + dataset.name;
      visit(Id(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, fmt::format("open '{}'", name)), name, dataset);
    }
  }
}

}  // namespace

void require_hdf5() {}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

Index read_structure(const std::string& path, const Structure& structure) {
  const std::lock_guard lock(hdf5::one_at_a_time);
  const hdf5::Quiet quiet;
  FileImage image;
  structure.write_extents([&](std::int64_t address, std::span<const std::byte> bytes) { image.write(address, bytes); });
  image.written = structure.file_bytes + seal_bytes(structure.extents.size());
  const Id access = image.access_list();
  const Id file(H5Fopen("checkpoint", H5F_ACC_RDONLY, access), H5Fclose, fmt::format("open {}", path));
  return read_index(file, path);
}

Index find_chunks(const std::string& path, bool record) {
  const std::lock_guard lock(hdf5::one_at_a_time);
  const hdf5::Quiet quiet;
  const File bytes = File::open_to_read(path);
  Id file(H5Fopen(path.c_str(), record ? H5F_ACC_RDWR : H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, fmt::format("open {}", path));
  Index index = read_index(file, path);
  for_each_chunked(file, index,
                   [&](hid_t data, const std::string& name, Dataset& dataset) { find_chunks(data, path, name, dataset); });
  if (record)
    for_each_chunked(file, index,
                     [&](hid_t data, const std::string& name, Dataset& dataset) { record_chunks(data, name, bytes, dataset); });
  file.close(fmt::format("write {}", path));
  return index;
}

}  // namespace weir::checkpoint
