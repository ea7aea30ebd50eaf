#include "compress/device_codec.hpp"

#include <algorithm>
#include <type_traits>
#include <variant>

#include "base/error.hpp"
#include "compress/cuda_kernels.hpp"

namespace weir::compress {
namespace {

template <class Scheme>
class DeviceQuantiser final : public PackedCodec {
 public:
  DeviceQuantiser(Scheme scheme, std::int64_t bucket, kernels::cuda::Queue queue)
      : scheme_(scheme), layout_{bucket, Scheme::headers, scheme.bits()}, queue_(queue) {}

  [[nodiscard]] std::int64_t granularity() const override { return std::max(layout_.bucket, code_chunk); }
  [[nodiscard]] std::int64_t most_bytes(std::int64_t count) const override { return layout_.bytes(count); }
  [[nodiscard]] bool fixed_size() const override { return true; }
  [[nodiscard]] bool votes() const override { return Scheme::votes; }

  std::int64_t encode(const Draw& draw, std::int64_t first, const float* values, std::int64_t count, std::byte* out,
                      float* rest) override {
    cuda::encode(queue_, scheme_, layout_, draw, first, values, count, out, rest);
    return layout_.bytes(count);
  }
  void decode(const std::byte* in, std::int64_t bytes, std::int64_t count, float* sum, bool add) override {
    if (bytes != most_bytes(count))
      fail(WEIR_ERR_TRANSPORT, "a message of {} values has {} bytes instead of {}", count, bytes, most_bytes(count));
    cuda::decode(queue_, scheme_, layout_, in, count, sum, add);
  }
  void finish(float* sum, std::int64_t count) override {
    if constexpr (Scheme::votes) cuda::vote(queue_, sum, count);
  }

 private:
  Scheme scheme_;
  QuantiserLayout layout_;
  kernels::cuda::Queue queue_;
};

/// Returns true if the scheme sums up a bucket. It does so in one fixed order, which is slow if the bucket is the whole vector.
[[nodiscard]] constexpr bool sums(Measure measure) { return measure != Measure::nothing && measure != Measure::largest; }

/// Calls f(scheme, bucket) if there is a scheme for CUDA memory.
template <class F>
void with_scheme(const Compressor& compressor, F f) {
  if (compressor.row->device_scheme == nullptr) return;
  const DeviceScheme found = compressor.row->device_scheme(compressor.parameters);
  std::visit(
      [&]<class Scheme>(const Scheme& scheme) {
        if constexpr (!std::is_same_v<Scheme, std::monostate>) {
          if (!sums(Scheme::measure) || found.bucket > 0) f(scheme, found.bucket);
        }
      },
      found.scheme);
}

}  // namespace

bool has_device_codec(const Compressor& compressor) {
  bool found = false;
  with_scheme(compressor, [&](const auto&, std::int64_t) { found = true; });
  return found;
}

std::unique_ptr<PackedCodec> make_device_codec(const Compressor& compressor, kernels::cuda::Queue queue) {
  std::unique_ptr<PackedCodec> codec;
  with_scheme(compressor, [&]<class Scheme>(const Scheme& scheme, std::int64_t bucket) {
    codec = std::make_unique<DeviceQuantiser<Scheme>>(scheme, bucket, queue);
  });
  return codec;
}

}  // namespace weir::compress
