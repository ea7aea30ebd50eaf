// Reads data sets of HDF5 files.
#include <bit>

#include "base/hdf5.hpp"
#include "datacache/array_source.hpp"

namespace weir {

using namespace datacache;

namespace {

using hdf5::Id;

/// Finds the type of the elements in a file. Returns the type in memory: the same, in this machine's byte order.
Id memory_type(hid_t dataset, const std::string& what, Element& element) {
  const Id type(H5Dget_type(dataset), H5Tclose, "read a type");
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t bytes = H5Tget_size(type);
  const bool is_power = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
  // h5py stores booleans as an enumeration of one byte.
  const bool is_number = kind == H5T_INTEGER || kind == H5T_FLOAT || (kind == H5T_ENUM && bytes == 1);
  if (!is_number || !is_power)
    fail(WEIR_ERR_FILE, "{} has elements that are no integers or real numbers of 1, 2, 4 or 8 bytes: other types are not read",
         what);
  Id memory(H5Tcopy(type), H5Tclose, "copy a type");
  if (bytes > 1)
    hdf5::check(H5Tset_order(memory, std::endian::native == std::endian::little ? H5T_ORDER_LE : H5T_ORDER_BE), "set a byte order");
  const bool has_sign = kind == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_2;
  element.number = kind == H5T_FLOAT  ? Number::real
                   : kind == H5T_ENUM ? Number::boolean
                   : has_sign         ? Number::integer
                                      : Number::natural;
  element.bytes = static_cast<int>(bytes);
  return memory;
}

/// An open data set. Calls are made under hdf5::one_at_a_time.
class Dataset {
 public:
  Dataset(hid_t file, const std::string& name, std::string what)
      : what_(std::move(what)),
        id_(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, fmt::format("open {}", what_)),
        memory_(memory_type(id_, what_, shape_.element)) {
    const Id space(H5Dget_space(id_), H5Sclose, fmt::format("read the shape of {}", what_));
    const int dimensions = H5Sget_simple_extent_ndims(space);
    std::vector<hsize_t> lengths(static_cast<std::size_t>(std::max(0, dimensions)));
    if (dimensions > 0) H5Sget_simple_extent_dims(space, lengths.data(), nullptr);
    // A length of more than 63 bits becomes negative, and measure() refuses it.
    for (const hsize_t length : lengths) shape_.dimensions.push_back(static_cast<std::int64_t>(length));
    shape_.measure(what_);
  }

  [[nodiscard]] const Shape& shape() const { return shape_; }
  void read(std::int64_t first, std::int64_t count, void* into) const {
    std::vector<hsize_t> begin(shape_.dimensions.size(), 0), lengths(shape_.dimensions.begin(), shape_.dimensions.end());
    begin[0] = static_cast<hsize_t>(first);
    lengths[0] = static_cast<hsize_t>(count);
    const std::string doing = fmt::format("read samples {} to {} of {}", first, first + count - 1, what_);
    const Id there(H5Dget_space(id_), H5Sclose, doing);
    hdf5::check(H5Sselect_hyperslab(there, H5S_SELECT_SET, begin.data(), nullptr, lengths.data(), nullptr), doing);
    const Id here(H5Screate_simple(static_cast<int>(lengths.size()), lengths.data(), nullptr), H5Sclose, doing);
    hdf5::check(H5Dread(id_, memory_, here, there, H5P_DEFAULT, into), doing);
  }

 private:
  std::string what_;
  Shape shape_;
  Id id_, memory_;
};

/// Returns an access list without file locks, which file systems may lack. A job does not write the file that it trains on.
Id access_list() {
  Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a list");
#if H5_VERSION_GE(1, 12, 1) || (H5_VERSION_GE(1, 10, 7) && !H5_VERSION_GE(1, 11, 0))
  hdf5::check(H5Pset_file_locking(access, false, true), "do without locks");
#endif
  return access;
}

struct Opened {
  Opened(const std::string& path, const std::string& dataset, const std::string& label_set)
      : file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access_list()), H5Fclose,
             fmt::format("open {}: it is no HDF5 file, or damaged", path)),
        items(file, dataset, fmt::format("'{}' of {}", dataset, path)) {
    if (!label_set.empty()) labels.emplace(file, label_set, fmt::format("'{}' of {}", label_set, path));
  }
  Id file;
  Dataset items;
  std::optional<Dataset> labels;
};

class Hdf5Source final : public ItemSource {
 public:
  Hdf5Source(const std::string& path, const std::string& dataset, const std::string& labels)
      : file_(path), identity_("hdf5 " + file_.stamp()) {
    const std::lock_guard lock(hdf5::one_at_a_time);
    const hdf5::Quiet quiet;
    auto opened = std::make_unique<Opened>(path, dataset, labels);  // closes under the lock if the rest throws
    const Shape& shape = opened->items.shape();
    std::optional<Shape> label_shape;
    if (opened->labels) label_shape = opened->labels->shape();
    set_shapes(shape, label_shape, fmt::format("'{}' of {}", labels, path));
    identity_ += fmt::format(" {} {}", one_line(dataset), shape.text());
    if (label_shape) identity_ += fmt::format("; labels {} {}", one_line(labels), label_shape->text());
    opened_ = std::move(opened);
  }
  ~Hdf5Source() override {
    const std::lock_guard lock(hdf5::one_at_a_time);
    const hdf5::Quiet quiet;
    opened_.reset();
  }
  Hdf5Source(const Hdf5Source&) = delete;
  Hdf5Source& operator=(const Hdf5Source&) = delete;

  [[nodiscard]] std::string identity() const override { return identity_; }

 private:
  void read_arrays(std::int64_t first, std::int64_t count, std::span<std::byte> items, std::span<std::byte> labels) override {
    if (count == 0) return;
    {
      const std::lock_guard lock(hdf5::one_at_a_time);
      const hdf5::Quiet quiet;
      opened_->items.read(first, count, items.data());
      if (opened_->labels) opened_->labels->read(first, count, labels.data());
    }
    file_.check_unchanged();
  }

  StoreFile file_;  // the file that opened_ reads
  std::unique_ptr<Opened> opened_;
  std::string identity_;
};

}  // namespace

std::shared_ptr<SampleSource> hdf5_source(const std::string& path, const std::string& dataset, const std::string& labels) {
  return std::make_shared<Hdf5Source>(path, dataset, labels);
}

}  // namespace weir
