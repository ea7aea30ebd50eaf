#include "checkpoint/file_image.hpp"

#include <H5FDpublic.h>
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include <algorithm>
#include <new>

namespace weir::checkpoint {
namespace {

/// An open file of the HDF5 library. The library knows the first member.
struct OpenImage {
  H5FD_t base{};
  FileImage* image = nullptr;
};

FileImage& image_of(const H5FD_t* file) { return *reinterpret_cast<const OpenImage*>(file)->image; }

H5FD_t* open_image(const char* /*name*/, unsigned /*flags*/, hid_t access, haddr_t /*most*/) {
  const auto* const image = static_cast<FileImage* const*>(H5Pget_driver_info(access));
  if (image == nullptr) return nullptr;
  auto* const open = new (std::nothrow) OpenImage{};
  if (open == nullptr) return nullptr;
  open->image = *image;
  return &open->base;
}
herr_t close_image(H5FD_t* file) {
  delete reinterpret_cast<OpenImage*>(file);
  return 0;
}
herr_t tell_features(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA;
  return 0;
}
haddr_t allocated_end(const H5FD_t* file, H5FD_mem_t /*type*/) { return static_cast<haddr_t>(image_of(file).allocated); }
herr_t set_allocated_end(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  image_of(file).allocated = static_cast<std::int64_t>(end);
  return 0;
}
haddr_t written_end(const H5FD_t* file, H5FD_mem_t /*type*/) { return static_cast<haddr_t>(image_of(file).written); }
herr_t read_image(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, std::size_t bytes, void* to) {
  image_of(file).read(static_cast<std::int64_t>(address), {static_cast<std::byte*>(to), bytes});
  return 0;
}
herr_t write_image(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t address, std::size_t bytes, const void* from) {
  try {
    image_of(file).write(static_cast<std::int64_t>(address), {static_cast<const std::byte*>(from), bytes});
    return 0;
  } catch (const std::bad_alloc&) {
    return -1;
  }
}

hid_t driver() {
  static const hid_t registered = [] {
    H5FD_class_t c{};
#if H5_VERSION_GE(1, 13, 2)
    c.version = H5FD_CLASS_VERSION;
    c.value = H5_VFD_RESERVED + 9427;
#endif
    c.name = "weir_image";
    c.maxaddr = haddr_t{1} << 62;
    c.fc_degree = H5F_CLOSE_WEAK;
    c.fapl_size = sizeof(FileImage*);
    c.open = open_image;
    c.close = close_image;
    c.query = tell_features;
    c.get_eoa = allocated_end;
    c.set_eoa = set_allocated_end;
    c.get_eof = written_end;
    c.read = read_image;
    c.write = write_image;
    constexpr H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
    std::copy(std::begin(map), std::end(map), c.fl_map);
    return H5FDregister(&c);
  }();
  return registered;
}

}  // namespace

void FileImage::read(std::int64_t address, std::span<std::byte> to) const {
  while (!to.empty()) {
    const std::int64_t at = address % page_bytes;
    const std::size_t bytes = std::min(to.size(), static_cast<std::size_t>(page_bytes - at));
    const auto page = pages_.find(address / page_bytes);
    if (page == pages_.end())
      std::fill_n(to.data(), bytes, std::byte{0});
    else
      std::copy_n(page->second->data() + at, bytes, to.data());
    to = to.subspan(bytes);
    address += static_cast<std::int64_t>(bytes);
  }
}

void FileImage::write(std::int64_t address, std::span<const std::byte> from) {
  written = std::max(written, address + static_cast<std::int64_t>(from.size()));
  while (!from.empty() && !forgets_) {
    const std::int64_t at = address % page_bytes;
    const std::size_t bytes = std::min(from.size(), static_cast<std::size_t>(page_bytes - at));
    std::unique_ptr<Page>& page = pages_[address / page_bytes];
    if (!page) page = std::make_unique<Page>();
    std::copy_n(from.data(), bytes, page->data() + at);
    from = from.subspan(bytes);
    address += static_cast<std::int64_t>(bytes);
  }
}

hdf5::Id FileImage::access_list() {
  constexpr hsize_t alignment = 4096;
  hdf5::Id access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "make a list");
  FileImage* const self = this;
  H5Pset_driver(access, driver(), &self);
  H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  H5Pset_alignment(access, alignment, alignment);
  return access;
}

}  // namespace weir::checkpoint
