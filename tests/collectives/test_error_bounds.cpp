// Sums and averages of error_bounded: every element is within the bound that docs/compressors.md states, for any number of ranks.
#include <cmath>

#include "compress/references.hpp"
#include "support/catch.hpp"
#include "support/fields.hpp"
#include "support/inproc_ranks.hpp"
#include "support/same_bits.hpp"

namespace weir::test {
namespace {

struct Case {
  int ranks;
  Field field;
  double absolute = 1e-4, relative = 0;
  bool average = false;
  std::int64_t count = 10'007;
  std::string machine{};  ///< empty: a rank on each node
};

using Vector = std::vector<float>;

/// Returns the update, which must be the same on all ranks.
Vector updated(const Case& c, const std::string& algorithm, const std::vector<Vector>& values) {
  std::vector<Vector> updates = values;
  run_ranks(c.ranks,
            [&](Communicator& comm) {
              Vector& mine = updates[static_cast<std::size_t>(comm.rank())];
              AllreducePlan plan(comm, {.count = c.count,
                                        .algorithm = algorithm,
                                        .compressor = "error_bounded",
                                        .compressor_parameters = fmt::format("absolute={},relative={}", c.absolute, c.relative),
                                        .average = c.average});
              plan.run(std::span<float>(mine));
              if (!plan.residual<float>().empty()) throw std::runtime_error("a residual");
            },
            {.machine = c.machine.empty() ? fmt::format("node:{} rank:1", c.ranks) : c.machine});
  for (const Vector& update : updates) REQUIRE(same_bits<float>(update, updates[0]));
  return updates[0];
}

/// `summands`: the ranks, or the nodes if these sum first.
void check(const Case& c, const std::string& algorithm, int summands) {
  INFO(algorithm << " on " << c.ranks << " ranks '" << c.machine << "', field " << static_cast<int>(c.field) << ", absolute "
                 << c.absolute << ", relative " << c.relative << ", average " << c.average << ", n " << c.count);
  std::vector<Vector> values;
  Vector all;
  for (int r = 0; r < c.ranks; ++r) {
    values.push_back(field(c.field, c.count, r));
    all.insert(all.end(), values.back().begin(), values.back().end());
  }
  const Vector update = updated(c, algorithm, values);
  const double bound = reference::bound_of(all, c.absolute, c.relative);
  for (std::size_t i = 0; i < update.size(); ++i) {
    long double sum = 0, magnitudes = 0;
    for (const Vector& x : values) {
      sum += static_cast<long double>(x[i]);
      magnitudes += std::abs(static_cast<long double>(x[i]));
    }
    long double allowed = summands * static_cast<long double>(bound);
    // Float32 rounds sums of more than 2^24 units, and nodes sum what is no multiple of a unit.
    if (magnitudes > 0x1p23L * static_cast<long double>(bound) || summands != c.ranks) allowed += c.ranks * 0x1p-24L * magnitudes;
    long double right = sum;
    if (c.average) {
      right /= c.ranks;
      allowed = allowed / c.ranks + 0x1p-24L * std::abs(static_cast<long double>(update[i])) + 0x1p-150L;
    }
    allowed += 0x1p-62L * magnitudes;  // of the sum here
    if (std::abs(static_cast<long double>(update[i]) - right) > allowed)
      FAIL("element " << i << " is " << update[i] << " instead of " << static_cast<double>(right) << ": more than "
                      << static_cast<double>(allowed) << " off");
  }
  if (c.machine.empty()) REQUIRE(same_bits<float>(update, updated(c, "packed_allgather", values)));
}

}  // namespace

TEST_CASE("sums are off by the number of ranks times the bound, averages by the bound", "[compressors]") {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const Field kind : all_fields) {
      if (kind == Field::largest && ranks > 1) continue;  // the sums overflow
      for (const bool average : {false, true}) {
        check({.ranks = ranks, .field = kind, .average = average}, "packed_reduce_scatter", ranks);
        check({.ranks = ranks, .field = kind, .absolute = 0x1p-20, .average = average}, "packed_reduce_scatter", ranks);
        check({.ranks = ranks, .field = kind, .relative = 1e-3, .average = average}, "packed_reduce_scatter", ranks);
      }
    }
    for (const std::int64_t count : {0, 1, 2, 33, 257}) {
      check({.ranks = ranks, .field = Field::waves_2d, .count = count}, "packed_reduce_scatter", ranks);
      check({.ranks = ranks, .field = Field::spikes, .relative = 1e-3, .count = count}, "packed_reduce_scatter", ranks);
    }
  }
  check({.ranks = 33, .field = Field::uniform}, "packed_reduce_scatter", 33);
}

TEST_CASE("where nodes sum first, the bound is that of as many summands as there are nodes", "[compressors]") {
  for (const Field kind : {Field::waves_3d, Field::uniform, Field::spikes}) {
    check({.ranks = 6, .field = kind, .machine = "node:3 rank:2"}, "packed_reduce_scatter", 3);
    check({.ranks = 6, .field = kind, .average = true, .machine = "node:3 rank:2"}, "packed_reduce_scatter", 3);
  }
}

TEST_CASE("one rank's large values leave the others' errors within the bound", "[compressors]") {
  for (const int ranks : {2, 3, 7}) {
    for (const std::string algorithm : {"packed_reduce_scatter", "packed_allgather"}) {
      Case c{.ranks = ranks, .field = Field::uniform, .absolute = 1e-3, .count = 4099};
      std::vector<Vector> values;
      for (int r = 0; r < ranks; ++r) values.push_back(field(c.field, c.count, r));
      for (std::size_t i = 0; i < 4099; i += 7) {  // they cancel
        values[0][i] = 1e9F;
        values[1][i] = -1e9F;
      }
      const Vector update = updated(c, algorithm, values);
      for (std::size_t i = 0; i < update.size(); ++i) {
        if (i % 7 == 0) continue;
        double sum = 0;
        for (const Vector& x : values) sum += static_cast<double>(x[i]);
        REQUIRE(std::abs(sum - static_cast<double>(update[i])) <= ranks * c.absolute);
      }
    }
  }
}

TEST_CASE("bounds hold for what is encoded without a collective", "[compressors]") {
  run_ranks(2, [&](Communicator& comm) {
    for (const std::string parameters : {"absolute=0.001", "relative=0.001"}) {
      const Vector x = field(Field::waves_2d, 10'007, comm.rank());
      AllreducePlan plan(
          comm,
          {.count = 10'007, .algorithm = "packed_allgather", .compressor = "error_bounded", .compressor_parameters = parameters});
      std::vector<std::byte> room(static_cast<std::size_t>(plan.encoded_bytes()));
      const std::int64_t bytes = plan.encode(x, room);
      Vector y(x.size());
      decode(std::span(room).first(static_cast<std::size_t>(bytes)), y);
      const double bound = parameters == "absolute=0.001" ? 0.001 : reference::bound_of(x, 0, 0.001);
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])) > bound) throw std::runtime_error(parameters);
      }
    }
  });
}

}  // namespace weir::test
