// shared_segment.hpp: memory that several processes of one node have mapped. Uses POSIX, not MPI: MPI's shared windows have no
// deadline, one rank alone cannot free them, and if /dev/shm is full they hang or end the process.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace weir {

/// Mapped memory, all zero until a process writes. The destructor unmaps it; the last process to do so frees it.
class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Allocates the pages of [offset, offset + bytes) now, on the NUMA node where this process runs. Otherwise the first touch of a
  /// page that cannot be allocated would end the process. Throws Error(WEIR_ERR_MEMORY).
  virtual void take_pages(std::int64_t offset, std::int64_t bytes) = 0;
  /// Removes the name: no other process can open the segment any more.
  virtual void forget_name() noexcept = 0;

 protected:
  SharedSegment() = default;
  void set_data(std::byte* data) noexcept { data_ = data; }

 private:
  std::byte* data_ = nullptr;
};

/// Rounds up to whole cache lines, so that what ranks write to lies in lines of their own.
[[nodiscard]] constexpr std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Memory of the same size from each rank of a node; empty if the ranks of the node exchange by messages.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// `bytes` of each rank.
  SharedMemory(std::byte* first, std::int64_t bytes, std::int64_t stride) : first_(first), bytes_(bytes), stride_(stride) {}
  [[nodiscard]] explicit operator bool() const noexcept { return first_ != nullptr; }
  /// Returns what member `member` of the node writes and all may read. See sync_shared_memory().
  [[nodiscard]] std::byte* of(int member) const noexcept { return first_ + member * stride_; }
  /// Returns what lies from `offset` on in that of each.
  [[nodiscard]] SharedMemory from(std::int64_t offset) const noexcept { return {first_ + offset, bytes_ - offset, stride_}; }
  /// Returns the last `bytes` of that of each.
  [[nodiscard]] SharedMemory last(std::int64_t bytes) const noexcept { return from(bytes_ - bytes); }

 private:
  std::byte* first_ = nullptr;
  std::int64_t bytes_ = 0, stride_ = 0;
};

/// Call it after writing to shared memory, before notifying others; and after being notified, before reading.
void sync_shared_memory() noexcept;

/// The name by which a process finds another's segment.
using SegmentName = std::array<char, 48>;

/// Returns the bytes that /dev/shm has room for; 0 if it cannot be written to.
[[nodiscard]] std::int64_t posix_segment_room() noexcept;
/// Makes a segment and sets `name` to a unique name. Throws Error(WEIR_ERR_MEMORY).
[[nodiscard]] std::unique_ptr<SharedSegment> make_posix_segment(std::int64_t bytes, SegmentName& name);
/// Opens a segment that another process has made. Throws Error(WEIR_ERR_MEMORY).
[[nodiscard]] std::unique_ptr<SharedSegment> open_posix_segment(std::string_view name, std::int64_t bytes);

}  // namespace weir
