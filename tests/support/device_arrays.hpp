// device_arrays.hpp: copies arrays to CUDA memory and back.
#pragma once

#include <span>
#include <vector>

#include "cuda/runtime.hpp"

namespace weir::test {

/// Copies to the host. Waits for the stream.
template <class V>
std::vector<V> fetch(const V* from, std::size_t count, void* stream) {
  std::vector<V> to(count);
  cuda::copy(to.data(), from, static_cast<std::int64_t>(count * sizeof(V)), stream);
  cuda::synchronize(stream);
  return to;
}

/// Copies to CUDA memory, on `stream`.
template <class V>
class Upload {
 public:
  Upload(std::span<const V> from, void* stream) : array_(static_cast<std::int64_t>(from.size())), stream_(stream) {
    cuda::copy(array_.data(), from.data(), array_.bytes(), stream);
  }
  [[nodiscard]] V* data() const { return array_.data(); }
  [[nodiscard]] std::span<V> there() const { return {array_.data(), static_cast<std::size_t>(array_.size())}; }
  [[nodiscard]] std::vector<V> fetch() const { return test::fetch(array_.data(), there().size(), stream_); }

 private:
  cuda::DeviceArray<V> array_;
  void* stream_;
};

}  // namespace weir::test
