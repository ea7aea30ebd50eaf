#include "checkpoint/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"

namespace weir::checkpoint {
namespace {

[[noreturn]] void fail_with_errno(std::string_view doing, const std::string& path) {
  const int error = errno;
  fail(WEIR_ERR_FILE, "{} {}: {}", doing, path, std::generic_category().message(error));
}

/// Returns once the names in the folder are on the disk.
void sync_folder(const std::string& folder) {
  const Descriptor open(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!open) fail_with_errno("cannot open folder", folder);
  if (::fsync(*open) != 0 && errno != EINVAL)
    fail_with_errno("cannot write to folder", folder);  // EINVAL: folders need no sync here
}

}  // namespace

File::File(std::string path, int flags) : path_(std::move(path)), descriptor_(::open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
  if (!descriptor_) fail_with_errno("cannot open", path_);
}

File File::open_to_read(const std::string& path) {
  File file(path, O_RDONLY | O_NONBLOCK);  // do not block on a pipe of that name
  struct stat status {};
  if (::fstat(*file.descriptor_, &status) != 0) fail_with_errno("cannot look at", path);
  if (!S_ISREG(status.st_mode)) fail(WEIR_ERR_FILE, "{} is no regular file", path);
  return file;
}
File File::open_to_write(const std::string& path) { return {path, O_RDWR}; }
File File::create(const std::string& path) { return {path, O_RDWR | O_CREAT | O_TRUNC}; }

void File::write_at(std::int64_t address, std::span<const std::byte> bytes) const {
  if (!weir::write_at(descriptor_, address, bytes)) fail_with_errno("cannot write to", path_);
}

void File::read_at(std::int64_t address, std::span<std::byte> bytes) const {
  if (weir::read_at(descriptor_, address, bytes)) return;
  if (errno != 0) fail_with_errno("cannot read", path_);
  fail(WEIR_ERR_FILE, "{} is truncated: it ends at byte {}, and has something up to byte {}", path_, size(),
       address + static_cast<std::int64_t>(bytes.size()));
}

void File::begin_sync([[maybe_unused]] std::int64_t address, [[maybe_unused]] std::int64_t bytes) const noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
  (void)::sync_file_range(*descriptor_, address, bytes, SYNC_FILE_RANGE_WRITE);  // sync() reports errors
#endif
}

std::int64_t File::size() const {
  struct stat status {};
  if (::fstat(*descriptor_, &status) != 0) fail_with_errno("cannot look at", path_);
  return status.st_size;
}

void File::sync() const {
  if (::fsync(*descriptor_) != 0) fail_with_errno("cannot write to", path_);
}

void File::close() {
  if (::close(descriptor_.release()) != 0) fail_with_errno("cannot write to", path_);
}

void rename_for_good(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_with_errno(fmt::format("cannot rename {} to", from), to);
  const std::string folder = std::filesystem::path(to).parent_path().string();
  sync_folder(folder.empty() ? "." : folder);
}

}  // namespace weir::checkpoint
