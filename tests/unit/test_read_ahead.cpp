// test_read_ahead.cpp: both ways of selection through memory have the same results. Large arrays measure which is faster.
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/read_ahead.hpp"
#include "support/catch.hpp"
#include "support/inputs.hpp"

namespace weir::test {
namespace {

/// The results of a selection from a large array.
struct Selected {
  std::vector<float> residual, values;
  std::vector<std::uint32_t> indices;
  std::int64_t hits = 0;
  bool operator==(const Selected&) const = default;
};

Selected select_once(std::int64_t count) {
  const std::vector<float> gradient = make_input<float>(Input::heavy_tailed, count, 0, 1, 3);
  Selected all;
  all.residual = make_input<float>(Input::heavy_tailed, count, 0, 1, 4);
  all.values.resize(static_cast<std::size_t>(count + select_padding));
  all.indices.resize(all.values.size());
  all.hits = kernels::host::compensate_select(gradient.data(), all.residual.data(), count, key_of(3.0f), key_infinity<float>,
                                              all.indices.data(), all.values.data(), count);
  all.values.resize(static_cast<std::size_t>(all.hits));
  all.indices.resize(static_cast<std::size_t>(all.hits));
  return all;
}

}  // namespace

TEST_CASE("selection has the same results whether it reads ahead or not, and finds out which is faster") {
  constexpr std::int64_t large = (std::int64_t{16} << 20) / sizeof(float) + 5;  // two of these arrays make a sample
  const Selected first = select_once(large);
  REQUIRE(first.hits > 0);
  for (int turn = 1; turn < 8; ++turn) REQUIRE(select_once(large) == first);
  const std::string found = kernels::host::read_ahead_text();
  CHECK((found.starts_with("on: ") || found.starts_with("off: ")));
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{4099}, large}) {
    kernels::host::set_read_ahead(true);
    const Selected ahead = select_once(count);
    kernels::host::set_read_ahead(false);
    CHECK(select_once(count) == ahead);
  }
}

}  // namespace weir::test
