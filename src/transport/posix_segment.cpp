#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <string>

#include "base/error.hpp"
#include "transport/shared_segment.hpp"

namespace weir {
namespace {

constexpr const char* folder = "/dev/shm";

class PosixSegment final : public SharedSegment {
 public:
  /// `flags` are added to those of shm_open.
  PosixSegment(std::string name, std::int64_t bytes, int flags) : name_(std::move(name)), bytes_(static_cast<std::size_t>(bytes)) {
    file_ = shm_open(name_.c_str(), O_RDWR | flags, S_IRUSR | S_IWUSR);
    if (file_ < 0) complain("opened");
    owned_ = (flags & O_CREAT) != 0;
    try {
      if (owned_ && ftruncate(file_, static_cast<off_t>(bytes)) != 0) complain("made large enough");
      void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
      if (memory == MAP_FAILED) complain("mapped");
      set_data(static_cast<std::byte*>(memory));
    } catch (...) {
      close_all();
      throw;
    }
  }
  ~PosixSegment() override { close_all(); }

  void take_pages(std::int64_t offset, std::int64_t bytes) override {
    if (bytes == 0) return;
    int error = EINTR;
    while (error == EINTR) error = posix_fallocate(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
    if (error != 0)
      fail(WEIR_ERR_MEMORY, "{} bytes of shared memory in {} cannot be filled with memory: {}", bytes, folder,
           std::strerror(error));
  }

  void forget_name() noexcept override {
    if (owned_) shm_unlink(name_.c_str());
    owned_ = false;
  }

 private:
  [[noreturn]] void complain(std::string_view what) const {
    const int error = errno;
    fail(WEIR_ERR_MEMORY, "{} bytes of shared memory in {} cannot be {}: {}", bytes_, folder, what, std::strerror(error));
  }
  void close_all() noexcept {
    forget_name();
    if (data() != nullptr) munmap(data(), bytes_);
    if (file_ >= 0) close(file_);
  }

  std::string name_;
  std::size_t bytes_;
  int file_ = -1;
  bool owned_ = false;
};

}  // namespace

std::int64_t posix_segment_room() noexcept {
  struct statvfs state {};
  if (statvfs(folder, &state) != 0 || (state.f_flag & ST_RDONLY) != 0 || access(folder, W_OK) != 0) return 0;
  return static_cast<std::int64_t>(state.f_bavail) * static_cast<std::int64_t>(state.f_frsize);
}

std::unique_ptr<SharedSegment> make_posix_segment(std::int64_t bytes, SegmentName& name) {
  std::random_device random;
  const std::string text = fmt::format("/weir-{}-{:08x}{:08x}", getpid(), random(), random());
  auto segment = std::make_unique<PosixSegment>(text, bytes, O_CREAT | O_EXCL);
  name = {};
  text.copy(name.data(), name.size() - 1);
  return segment;
}

std::unique_ptr<SharedSegment> open_posix_segment(std::string_view name, std::int64_t bytes) {
  return std::make_unique<PosixSegment>(std::string(name), bytes, 0);
}

}  // namespace weir
