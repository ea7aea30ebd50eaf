// runtime.hpp: what the library needs of CUDA besides kernels: memory, events, copies. No CUDA header is needed to include this
// file; streams are void* (cudaStream_t).
//
// In a build without CUDA, why_unusable() says so, place_of() finds host memory and device_count() no device. OnDevice, Memory,
// Stream, describe(), synchronize() and copy() throw. The rest is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/completion.hpp"

namespace weir::cuda {

/// Returns why there is no usable GPU (built without CUDA, no driver, one older than the toolkit, no GPU); empty if there is one.
[[nodiscard]] const std::string& why_unusable();

/// What an address points to. Memory that CUDA does not know is host memory. place_of() does not start a driver that the process
/// has not used.
struct Place {
  enum class Kind : std::uint8_t { host, pinned, device, managed } kind = Kind::host;
  int device = -1;  ///< for device and managed memory
};
[[nodiscard]] Place place_of(const void* address);

[[nodiscard]] int device_count();
/// Returns the calling thread's device.
[[nodiscard]] int current_device();

struct DeviceInfo {
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  std::int64_t bytes = 0;    ///< of its memory
  std::string bus_id;        ///< "0000:3b:00.0"
};
[[nodiscard]] DeviceInfo describe(int device);

/// Makes `device` the thread's, and restores the former one in the destructor.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

enum class MemoryKind : std::uint8_t { device, pinned };

/// Uninitialised bytes on the thread's device, or host memory that the device reads and writes directly. Throws
/// Error(WEIR_ERR_MEMORY).
class Memory {
 public:
  Memory() = default;
  Memory(MemoryKind kind, std::int64_t bytes);
  Memory(Memory&& other) noexcept
      : kind_(other.kind_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Memory();
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  MemoryKind kind_ = MemoryKind::device;
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

template <class V, MemoryKind kind>
class Array {
 public:
  Array() = default;
  explicit Array(std::int64_t size) : memory_(kind, size * static_cast<std::int64_t>(sizeof(V))), size_(size) {}
  [[nodiscard]] V* data() const noexcept { return static_cast<V*>(memory_.data()); }
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t bytes() const noexcept { return memory_.bytes(); }

 private:
  Memory memory_;
  std::int64_t size_ = 0;
};
template <class V>
using DeviceArray = Array<V, MemoryKind::device>;
/// Host and device can read and write the elements, but not both at once.
template <class V>
using PinnedArray = Array<V, MemoryKind::pinned>;

/// A new stream on the thread's device, which does not wait for the default stream.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  [[nodiscard]] void* get() const noexcept { return stream_; }

 private:
  void* stream_ = nullptr;
};

/// A point in the work of a stream. The engine awaits it as it does a request.
class Event final : public Completion {
 public:
  Event();
  ~Event() override;
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Sets the point to the end of the work that is on `stream` now.
  void record(void* stream);
  /// Throws Error(WEIR_ERR_DEVICE) if the work before it has failed.
  [[nodiscard]] bool reached() override;
  /// Makes later work on `stream` wait for it.
  void hold(void* stream) const;

 private:
  void* event_ = nullptr;
};

/// Returns false for a destroyed stream, as far as CUDA can tell. The default stream (nullptr) is a stream.
[[nodiscard]] bool is_stream(void* stream);

/// Waits until all work on `stream` is done.
void synchronize(void* stream);

/// Copies between any two places, in the order of `stream`. Returns at once if host memory is pinned.
void copy(void* to, const void* from, std::int64_t bytes, void* stream);

}  // namespace weir::cuda
