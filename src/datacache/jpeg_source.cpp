// Reads JPEG files from one folder for each class.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/splitmix.hpp"
#include "datacache/array_source.hpp"
#include "datacache/jpeg_image.hpp"

namespace weir {

using namespace datacache;

namespace {

constexpr int largest_side = 65500;  // limit of the JPEG format
constexpr std::int64_t largest_file = std::int64_t{1} << 28;

/// Returns the names in a folder for which wanted() is true, sorted by bytes.
template <class Wanted>
std::vector<std::string> names_in(const std::filesystem::path& folder, const Wanted& wanted) {
  std::vector<std::string> names;
  try {
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator(folder)) {
      std::string name = entry.path().filename().string();
      if (!name.starts_with('.') && wanted(entry, name)) names.push_back(std::move(name));
    }
  } catch (const std::filesystem::filesystem_error& error) {
    fail(WEIR_ERR_FILE, "cannot list {}: {}", folder.string(), error.code().message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_jpeg_name(const std::string& name) {
  std::string end = name.substr(std::min(name.size(), name.rfind('.')));
  std::transform(end.begin(), end.end(), end.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return end == ".jpg" || end == ".jpeg";
}

/// Stores the names of millions of files in few allocations.
class Files {
 public:
  explicit Files(const std::string& folder) : folder_(folder) {
    classes_ = names_in(folder_, [](const auto& entry, const std::string&) { return entry.is_directory(); });
    if (classes_.empty()) fail(WEIR_ERR_FILE, "{} has no subfolders: give a folder that has one for each class", folder);
    for (const std::string& name : classes_) {
      first_of_class_.push_back(count());
      for (const std::string& file : names_in(folder_ / name, [](const auto&entry, const std::string&one) {
             return is_jpeg_name(one) && entry.is_regular_file();
           })) {
        begins_.push_back(names_.size());
        names_ += file;
        names_ += '\0';
      }
    }
  }

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(begins_.size()); }
  [[nodiscard]] std::int32_t class_of(std::int64_t sample) const {
    return static_cast<std::int32_t>(std::upper_bound(first_of_class_.begin(), first_of_class_.end(), sample) -
                                     first_of_class_.begin()) -
           1;
  }
  [[nodiscard]] std::string path(std::int64_t sample) const {
    const char* const name = names_.data() + begins_[static_cast<std::size_t>(sample)];
    return (folder_ / classes_[static_cast<std::size_t>(class_of(sample))] / name).string();
  }
  [[nodiscard]] std::string stamp() const {
    Fingerprint all;
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      all.add(classes_[i]);
      all.add(first_of_class_[i]);
    }
    all.add(names_);
    return fmt::format("{} {} classes {} files {:016x}", file_name(folder_.string()), classes_.size(), count(), all.value());
  }

 private:
  std::filesystem::path folder_;
  std::vector<std::string> classes_;
  std::vector<std::int64_t> first_of_class_;
  std::string names_;  // each zero-terminated
  std::vector<std::size_t> begins_;
};

class JpegSource final : public SampleSource {
 public:
  JpegSource(const std::string& folder, Extent2 extent)
      : files_(folder), extent_(extent), image_bytes_(std::int64_t{3} * extent.height * extent.width) {}

  [[nodiscard]] std::int64_t size() const override { return files_.count(); }
  [[nodiscard]] std::int64_t value_bytes() const override {
    return label_place(image_bytes_) + static_cast<std::int64_t>(sizeof(std::int32_t));
  }
  [[nodiscard]] std::string identity() const override { return "jpeg " + files_.stamp(); }
  [[nodiscard]] std::uint64_t changes(std::int64_t first, std::int64_t count) const override {
    std::uint64_t sum = 0;
    for (std::int64_t sample = first; sample < first + count; ++sample) {
      const std::string path = files_.path(sample);
      struct stat found {};
      if (::stat(path.c_str(), &found) != 0) fail(WEIR_ERR_FILE, "cannot look at {}: {}", path, std::strerror(errno));
      Fingerprint one;
      for (const std::int64_t number :
           {sample, std::int64_t{found.st_size}, std::int64_t{found.st_mtim.tv_sec}, std::int64_t{found.st_mtim.tv_nsec}})
        one.add(static_cast<std::uint64_t>(number));
      sum += splitmix64(one.value());
    }
    return sum;
  }
  [[nodiscard]] std::string layout() const override { return fmt::format("uint8[{},{},3] int32[]", extent_.height, extent_.width); }
  void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override {
    check_range(first, count, size());
    for (std::int64_t i = 0; i < count; ++i) {
      const StoreFile file(files_.path(first + i));
      if (file.bytes() > largest_file)
        fail(WEIR_ERR_FILE, "{} has {} bytes: images of at most {} are read", file.path(), file.bytes(), largest_file);
      const std::size_t begin = encoded.size();
      encoded.resize(begin + static_cast<std::size_t>(file.bytes()));
      file.read(0, std::span(encoded).subspan(begin));
      sizes[static_cast<std::size_t>(i)] = file.bytes();
    }
  }
  std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) override {
    require(value.size() == static_cast<std::size_t>(value_bytes()), "the value has {} bytes: {} are expected", value.size(),
            value_bytes());
    const auto image = static_cast<std::size_t>(image_bytes_);
    try {
      decode_jpeg(encoded, extent_, value.first(image));
    } catch (const Error& error) {
      throw Error(error.status(), fmt::format("{} {}", files_.path(sample), error.what()));
    }
    put_label(files_.class_of(sample), image_bytes_, value);
    return value_bytes();
  }

 private:
  Files files_;
  Extent2 extent_;
  std::int64_t image_bytes_;
};

}  // namespace

std::shared_ptr<SampleSource> jpeg_source(const std::string& folder, int height, int width) {
  if (!has_jpeg()) decode_jpeg({}, {}, {});
  require(height >= 1 && height <= largest_side && width >= 1 && width <= largest_side,
          "images are to be {} x {} pixels: each side must be from 1 to {}", height, width, largest_side);
  return std::make_shared<JpegSource>(folder, Extent2{height, width});
}

}  // namespace weir
