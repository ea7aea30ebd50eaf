// Norms of an array's blocks in CUDA memory, in one launch: each has the host's bits.
#include <algorithm>
#include <array>
#include <vector>

#include "kernels/kernels.hpp"
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

}  // namespace weir::test
