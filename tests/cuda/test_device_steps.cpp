// Norms of an array's blocks in CUDA memory, in one launch, have the host's bits.
#include <algorithm>
#include <array>
#include <type_traits>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/narrow.hpp"
#include "optim/narrow_weights.hpp"
#include "support/catch.hpp"
#include "support/cuda_kernel_set.hpp"
#include "support/inputs.hpp"

namespace weir::test {
namespace {

constexpr std::array<std::int64_t, 5> counts = {0, 1, 1000, 4096, 10001};
constexpr std::array<std::int64_t, 5> blocks = {1000, 1024, 4096, 9999, 65536};

template <class Call>
void for_each_size(Call call) {
  for (const std::int64_t count : counts)
    for (const std::int64_t block : blocks) {
      INFO("count " << count << " block " << block);
      call(count, block, std::max<std::int64_t>(1, (count + block - 1) / block));
    }
}

}  // namespace

TEST_CASE("norms of blocks", "[cuda]") {
  for_each_size([](std::int64_t count, std::int64_t block, std::int64_t pieces) {
    const auto x = make_input<float>(Input::heavy_tailed, count, 0, 1, 1);
    std::vector<double> found(static_cast<std::size_t>(pieces), -1);
    OnDevice<const float> a(x.data(), count);
    OnDevice<double> f(found.data(), pieces);
    kernels::cuda::squared_norm(TestQueue(count), a.get(), count, block, f.get());
    a.fetch(), f.fetch();
    for (std::int64_t b = 0; b < pieces; ++b)
      REQUIRE(found[static_cast<std::size_t>(b)] ==
              kernels::host::squared_norm(x.data() + b * block, std::min(block, count - b * block)));
  });
}

TEST_CASE("norms of blocks by Adam's moments", "[cuda]") {
  const AdamFactors<float> factors{0.9F, 0.999F, 0.19F, 0.0447F, 1e-6F, 0.01F};
  for_each_size([&](std::int64_t count, std::int64_t block, std::int64_t pieces) {
    const auto g = make_input<float>(Input::heavy_tailed, count, 0, 1, 1),
               w = make_input<float>(Input::heavy_tailed, count, 0, 1, 2);
    std::vector<float> m = make_input<float>(Input::heavy_tailed, count, 0, 1, 3), v(m.size(), 0.25F), right_m = m, right_v = v;
    std::vector<SquaredNorms> found(static_cast<std::size_t>(pieces));
    OnDevice<const float> on_g(g.data(), count), on_w(w.data(), count);
    OnDevice<float> on_m(m.data(), count), on_v(v.data(), count);
    OnDevice<SquaredNorms> f(found.data(), pieces);
    kernels::cuda::adam_moments(TestQueue(count), on_g.get(), on_w.get(), on_m.get(), on_v.get(), count, block, factors, f.get());
    on_g.fetch(), on_w.fetch(), on_m.fetch(), on_v.fetch(), f.fetch();
    for (std::int64_t b = 0; b < pieces; ++b) {
      const std::int64_t at = b * block;
      const SquaredNorms right = kernels::host::adam_moments(g.data() + at, w.data() + at, right_m.data() + at, right_v.data() + at,
                                                             std::min(block, count - at), factors);
      REQUIRE(found[static_cast<std::size_t>(b)].weights == right.weights);
      REQUIRE(found[static_cast<std::size_t>(b)].other == right.other);
    }
    REQUIRE((m == right_m && v == right_v));
  });
}

namespace {

template <class G>
constexpr DataType type_of = std::is_same_v<G, float16> ? DataType::float16 : DataType::bfloat16;

/// 16-bit weights, some of which differ from their rounded float32 copies, on the host; and the float32 weights after these are
/// taken over.
template <class G>
struct SomeWeights {
  explicit SomeWeights(std::int64_t count) : wide(make_input<float>(Input::heavy_tailed, count, 0, 1, 2)), given(wide.size()) {
    for (std::size_t i = 0; i < wide.size(); i += 11) wide[i] *= 1e6F;
    optim::narrow(type_of<G>, wide.data(), count, given.data());
    for (std::size_t i = 0; i < given.size(); i += 7) given[i].bits ^= 1;
    taken = wide;
    optim::take_over(type_of<G>, given.data(), count, taken.data());
  }
  [[nodiscard]] std::vector<std::uint16_t> bits() const {
    std::vector<std::uint16_t> all;
    for (const G weight : given) all.push_back(weight.bits);
    return all;
  }
  [[nodiscard]] std::vector<std::uint16_t> rounded() const {
    std::vector<std::uint16_t> all(wide.size());
    optim::narrow(type_of<G>, taken.data(), std::ssize(taken), all.data());
    return all;
  }
  std::vector<float> wide, taken;
  std::vector<G> given;
};

template <class G>
std::vector<G> narrow_gradient(std::int64_t count, std::vector<float>& widened) {
  std::vector<G> narrow(static_cast<std::size_t>(count));
  widened = make_input<float>(Input::heavy_tailed, count, 0, 1, 1);
  optim::narrow(type_of<G>, widened.data(), count, narrow.data());
  optim::widen(type_of<G>, narrow.data(), count, widened.data());
  return narrow;
}

}  // namespace

TEMPLATE_TEST_CASE("steps with momentum of 16-bit weights", "[cuda]", float16, bfloat16) {
  for (const std::int64_t count : counts) {
    INFO("count " << count);
    std::vector<float> gradient, v = make_input<float>(Input::heavy_tailed, count, 0, 1, 3), right_v = v;
    const std::vector<TestType> g = narrow_gradient<TestType>(count, gradient);
    SomeWeights<TestType> w(count);
    {
      OnDevice<const TestType> on_g(g.data(), count);
      OnDevice<TestType> given(w.given.data(), count);
      OnDevice<float> wide(w.wide.data(), count), on_v(v.data(), count);
      kernels::cuda::NarrowWeights<TestType> weights{given.get(), wide.get()};
      kernels::cuda::momentum_step(TestQueue(count), on_g.get(), weights, on_v.get(), count, 0.1F, 0.01F, 0.9F);
      on_g.fetch(), given.fetch(), wide.fetch(), on_v.fetch();
    }
    kernels::host::momentum_step(gradient.data(), w.taken.data(), right_v.data(), count, 0.1F, 0.01F, 0.9F);
    REQUIRE(v == right_v);
    REQUIRE(w.wide == w.taken);
    REQUIRE(w.bits() == w.rounded());
  }
}

TEMPLATE_TEST_CASE("Adam's moments and steps of 16-bit weights", "[cuda]", float16, bfloat16) {
  const AdamFactors<float> factors{0.9F, 0.999F, 0.19F, 0.0447F, 1e-6F, 0.01F};
  for_each_size([&](std::int64_t count, std::int64_t block, std::int64_t pieces) {
    std::vector<float> gradient, m = make_input<float>(Input::heavy_tailed, count, 0, 1, 3), v(m.size(), 0.25F), right_m = m,
                                 right_v = v;
    const std::vector<TestType> g = narrow_gradient<TestType>(count, gradient);
    SomeWeights<TestType> w(count);
    const std::vector<std::uint16_t> before = w.bits();
    std::vector<SquaredNorms> found(static_cast<std::size_t>(pieces));
    std::vector<double> norms(found.size(), -1);
    OnDevice<const TestType> on_g(g.data(), count);
    OnDevice<TestType> given(w.given.data(), count);
    OnDevice<float> wide(w.wide.data(), count), on_m(m.data(), count), on_v(v.data(), count);
    OnDevice<SquaredNorms> f(found.data(), pieces);
    OnDevice<double> n(norms.data(), pieces);
    const kernels::cuda::NarrowWeights<TestType> weights{given.get(), wide.get()};
    kernels::cuda::squared_norm<TestType>(TestQueue(count), on_g.get(), count, block, n.get());
    kernels::cuda::adam_moments(TestQueue(count), on_g.get(), weights, on_m.get(), on_v.get(), count, block, factors, f.get());
    on_g.fetch(), given.fetch(), wide.fetch(), on_m.fetch(), on_v.fetch(), f.fetch(), n.fetch();
    for (std::int64_t b = 0; b < pieces; ++b) {
      const std::int64_t at = b * block, size = std::min(block, count - at);
      const SquaredNorms right = kernels::host::adam_moments(gradient.data() + at, w.taken.data() + at, right_m.data() + at,
                                                             right_v.data() + at, size, factors);
      REQUIRE(found[static_cast<std::size_t>(b)].weights == right.weights);
      REQUIRE(found[static_cast<std::size_t>(b)].other == right.other);
      REQUIRE(norms[static_cast<std::size_t>(b)] == kernels::host::squared_norm(gradient.data() + at, size));
    }
    REQUIRE((m == right_m && v == right_v));
    REQUIRE(w.wide == w.taken);
    REQUIRE(w.bits() == before);

    kernels::cuda::adam_step(TestQueue(count), on_m.get(), on_v.get(), weights, count, 0.1F, factors);
    given.fetch(), wide.fetch();
    kernels::host::adam_step(right_m.data(), right_v.data(), w.taken.data(), count, 0.1F, factors);
    REQUIRE(w.wide == w.taken);
    REQUIRE(w.bits() == w.rounded());
  });
}

}  // namespace weir::test
