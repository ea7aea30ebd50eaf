// device_arrays.hpp: vectors to and from CUDA memory.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/runtime.hpp"

namespace weir::test {

template <class V>
std::vector<V> fetch(const V* from, std::size_t count, void* stream) {
  std::vector<V> to(count);
  cuda::copy(to.data(), from, static_cast<std::int64_t>(count * sizeof(V)), stream);
  cuda::synchronize(stream);
  return to;
}

template <class V>
class Upload {
 public:
  Upload(const std::vector<V>& from, void* stream) : array_(static_cast<std::int64_t>(from.size())), stream_(stream) {
    cuda::copy(array_.data(), from.data(), array_.bytes(), stream);
  }
  V* data() { return array_.data(); }
  std::vector<V> fetch() { return test::fetch(array_.data(), static_cast<std::size_t>(array_.size()), stream_); }

 private:
  cuda::DeviceArray<V> array_;
  void* stream_;
};

}  // namespace weir::test
