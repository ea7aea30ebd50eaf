#include "compress/device_codec.hpp"

#include <algorithm>
#include <string_view>

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

/// Calls f(scheme, bucket) if there is a scheme: one that sums a bucket goes through it in one order, which is slow where that is
/// the whole vector.
template <class F>
bool with_scheme(const Compressor& compressor, F f) {
  const std::string_view name = compressor.row->name;
  const Parameters& parameters = compressor.parameters;
  if (name == "sign_sgd" || name == "signum") return f(DeviceSigns{}, std::int64_t{0}), true;
  if (name == "natural") return f(DeviceNatural{}, std::int64_t{0}), true;
  const auto has = [&](std::string_view wanted) {
    return std::any_of(compressor.row->parameters.begin(), compressor.row->parameters.end(),
                       [&](const ParameterInfo& info) { return info.name == wanted; });
  };
  if (!has("bucket")) return false;
  const std::int64_t bucket = parameters.whole("bucket");
  if (name == "block_quantise" && parameters.whole("format") == 2)
    f(DeviceFloat8{}, bucket);
  else if (name == "block_quantise")
    f(DeviceIntegers{parameters.whole("format") == 0 ? 127 : 7}, bucket);
  else if (name == "eight_bit")
    f(DeviceDynamicTree{}, bucket);
  else if (name == "terngrad" && parameters["clip"] == 0)
    f(DeviceRandomLevels<Measure::largest, true>{1}, bucket);
  else if (bucket == 0)
    return false;
  else if (name == "terngrad")
    f(DeviceRandomLevels<Measure::squares, true>{1, parameters["clip"]}, bucket);
  else if (name == "qsgd")
    f(DeviceRandomLevels<Measure::squares, false>{static_cast<int>(parameters.whole("levels"))}, bucket);
  else if (name == "ef_sign_sgd")
    f(DeviceScaledSigns{}, bucket);
  else if (name == "one_bit_sgd")
    f(DeviceSideMeans{}, bucket);
  else
    return false;
  return true;
}

}  // namespace

bool has_device_codec(const Compressor& compressor) {
  return with_scheme(compressor, [](auto, std::int64_t) {});
}

std::unique_ptr<PackedCodec> make_device_codec(const Compressor& compressor, kernels::cuda::Queue queue) {
  std::unique_ptr<PackedCodec> codec;
  with_scheme(compressor, [&]<class Scheme>(Scheme scheme, std::int64_t bucket) {
    codec = std::make_unique<DeviceQuantiser<Scheme>>(scheme, bucket, queue);
  });
  return codec;
}

}  // namespace weir::compress
