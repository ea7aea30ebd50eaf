// The division of tensors into buffers: pure functions of sizes and times.
#include <algorithm>
#include <limits>
#include <random>

#include "catalogue/fusion/schemes.hpp"
#include "fusion/adaptation.hpp"
#include "fusion/division.hpp"
#include "support/catch.hpp"

#if __has_include(<catch2/catch_all.hpp>)
using Catch::Approx;
#endif

namespace weir::fusion {
namespace {

Line line_of(const std::vector<std::pair<std::int64_t, double>>& bytes_and_ready) {
  Line line;
  int tensor = static_cast<int>(bytes_and_ready.size());
  for (const auto& [bytes, ready] : bytes_and_ready) line.push_back({--tensor, bytes, bytes, ready});
  return line;
}

Line random_line(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::pair<std::int64_t, double>> all;
  double ready = 0;
  for (std::size_t i = 0; i < n; ++i) {
    ready += 1e-4 * (random() % 100);
    all.emplace_back(1 + random() % 100000, ready);
  }
  return line_of(all);
}

/// Returns the time at which the last exchange of these stretches ends.
double end_of(const Line& line, const Ends& ends, const LinearCost& cost) {
  double free = 0;
  std::size_t i = 0;
  for (const std::size_t end : ends) {
    std::int64_t bytes = 0;
    double ready = 0;
    for (; i < end; ++i) {
      bytes += line[i].bytes;
      ready = std::max(ready, line[i].ready);
    }
    free = std::max(free, ready) + cost(bytes);
  }
  return free;
}

bool covers(const Line& line, const Ends& ends) {
  return line.empty() ? ends.empty() : ends.back() == line.size() && std::is_sorted(ends.begin(), ends.end(), std::less_equal<>());
}

}  // namespace

TEST_CASE("stretches cover the line, whatever makes them") {
  const LinearCost cost{1e-3, 1e-8};
  for (const std::size_t n : {0u, 1u, 2u, 7u, 100u}) {
    const Line line = random_line(n, static_cast<unsigned>(n));
    for (const Ends& ends : {one_each(line), by_bytes(line, 1), by_bytes(line, 200000), tapered(line, 1), tapered(line, 400000),
                             merged(line, cost), balanced(line, cost, 300000), earliest(line, cost, 64)})
      REQUIRE(covers(line, ends));
  }
}

TEST_CASE("a stretch ends before the tensor that would make it too large") {
  const Line line = line_of({{4, 0}, {4, 0}, {4, 0}, {20, 0}, {1, 0}});
  REQUIRE((by_bytes(line, 8) == Ends{2, 3, 4, 5}));
  REQUIRE((by_bytes(line, 100) == Ends{5}));
  REQUIRE((by_bytes(line_of({{0, 0}, {0, 0}, {9, 0}}), 8) == Ends{3}));
}

TEST_CASE("tapered stretches are small at both ends") {
  const auto ones = [](std::size_t n) { return line_of(std::vector<std::pair<std::int64_t, double>>(n, {1, 0})); };
  REQUIRE((tapered(ones(100), 32) == Ends{2, 10, 42, 74, 90, 98, 100}));
  REQUIRE((tapered(ones(10), 32) == Ends{8, 10}));
  REQUIRE((tapered(ones(2), 32) == Ends{2}));
  REQUIRE((tapered(ones(3), 1) == Ends{1, 2, 3}));
  // A tensor larger than a small stretch ends the taper on its side.
  REQUIRE((tapered(line_of({{20, 0}, {9, 0}, {30, 0}, {1, 0}, {20, 0}}), 32) == Ends{1, 2, 4, 5}));
  // Dense tensors, which have no elements in the index space, stay with the sparse tensor after them.
  Line line = line_of({{40, 0}, {40, 0}, {8, 0}, {8, 0}, {1, 0}});
  line[2].elements = line[3].elements = 0;
  REQUIRE((tapered(line, 52) == Ends{1, 2, 5}));
  line = line_of({{8, 0}, {40, 0}, {8, 0}, {1, 0}, {1, 0}});
  line[0].elements = line[2].elements = 0;
  REQUIRE((tapered(line, 52) == Ends{2, 4, 5}));
  for (unsigned seed = 0; seed < 40; ++seed) {
    line = random_line(seed, seed);
    for (const std::int64_t most : {16, 300000, 1600000}) {
      std::size_t begin = 0;
      for (const std::size_t end : tapered(line, most)) {
        std::int64_t bytes = 0;
        for (std::size_t i = begin; i < end; ++i) bytes += line[i].bytes;
        REQUIRE((bytes <= most || end == begin + 1));
        begin = end;
      }
    }
  }
}

TEST_CASE("tensors merge where the next is ready before the startup is over") {
  const LinearCost cost{1.0, 0.0};
  REQUIRE((merged(line_of({{1, 0}, {1, 0.5}, {1, 5}}), cost) == Ends{2, 3}));
  REQUIRE((merged(line_of({{1, 0}, {1, 2}, {1, 2.5}}), cost) == Ends{1, 3}));
}

TEST_CASE("a stretch grows until its exchange takes as long as the next tensor takes to come") {
  const LinearCost cost{0.0, 1.0};  // one second per byte
  // One byte a second: exchanges of one tensor keep up.
  REQUIRE((balanced(line_of({{1, 0}, {1, 1}, {1, 2}}), cost, 100) == Ends{1, 2, 3}));
  // Two seconds between tensors: two of them are exchanged in the time that the next takes.
  REQUIRE((balanced(line_of({{1, 0}, {1, 2}, {1, 4}, {1, 6}, {1, 8}}), cost, 100) == Ends{2, 4, 5}));
  // A tenth of a second between tensors: the tensors that arrive during one exchange form the next.
  REQUIRE((balanced(line_of({{1, 0}, {1, 0.1}, {1, 0.2}, {1, 0.9}, {1, 1.5}, {1, 2.5}}), cost, 100) == Ends{1, 4, 6}));
  REQUIRE((balanced(line_of({{1, 0}, {1, 2}, {1, 4}}), cost, 1) == Ends{1, 2, 3}));
}

TEST_CASE("no other division ends earlier") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::size_t n = 1 + seed % 12;
    const Line line = random_line(n, seed);
    const LinearCost cost{seed % 3 == 0 ? 5e-3 : 2e-4, seed % 2 == 0 ? 1e-7 : 1e-9};
    double best = std::numeric_limits<double>::infinity();
    for (unsigned cuts = 0; cuts < 1u << (n - 1); ++cuts) {
      Ends ends;
      for (std::size_t i = 1; i < n; ++i)
        if ((cuts >> (i - 1) & 1) != 0) ends.push_back(i);
      ends.push_back(n);
      best = std::min(best, end_of(line, ends, cost) + cost.startup / 10 * static_cast<double>(ends.size()));
    }
    const Ends ends = earliest(line, cost, n);
    // Each buffer also costs a tenth of a startup.
    REQUIRE(end_of(line, ends, cost) <= best + 1e-12);
    REQUIRE(earliest(line, cost, 2).size() <= 2);
  }
}

TEST_CASE("no buffer has more elements than an index counts") {
  const std::int64_t third = (std::int64_t{1} << 32) / 3;
  Line line = line_of({{third, 0}, {third, 0}, {third, 0}, {third, 0}, {0, 0}});
  const Division division = divide(line, {line.size()});
  REQUIRE((division == Division{{3, 4}, {1, 2}, {0}} || division == Division{{2, 3, 4}, {0, 1}}));
  for (const std::vector<int>& buffer : division) {
    std::int64_t elements = 0;
    for (const int tensor : buffer) elements += line[line.size() - 1 - static_cast<std::size_t>(tensor)].elements;
    REQUIRE(elements <= std::numeric_limits<std::uint32_t>::max());
  }
}

TEST_CASE("a line is fitted to samples, or what was predicted is scaled") {
  const LinearCost exact{2e-3, 3e-9};
  std::vector<Sample> samples;
  for (const std::int64_t bytes : {1000, 50000, 4000000}) samples.push_back({bytes, exact(bytes)});
  const LinearCost found = fit(samples, {1, 1});
  REQUIRE(found.startup == Approx(exact.startup));
  REQUIRE(found.per_byte == Approx(exact.per_byte));
  const LinearCost scaled = fit(std::vector<Sample>{{100, 3.0}, {100, 3.0}}, {1.0, 0.005});
  REQUIRE(scaled(100) == Approx(3.0));
  REQUIRE(fit({}, exact)(77) == exact(77));
}

TEST_CASE("adaptation settles on the division with the shortest iterations, on agreed figures alone") {
  Line line = line_of({{100, 0}, {100, 0}, {100, 0}, {100, 0}, {100, 0}, {100, 0}});
  const LinearCost truth{1e-3, 1e-6};
  for (const FusionScheme scheme : {FusionScheme::ahead_inter_intra, FusionScheme::ahead_fitted}) {
    Adaptation adaptation(find_scheme(scheme), line, {1.0, 1.0}, 1000);
    Division division = divide(line, by_bytes(line, 200));
    std::vector<double> ready(line.size());
    for (std::size_t i = 0; i < ready.size(); ++i) ready[i] = 2e-3 * static_cast<double>(ready.size() - i);
    double first = 0, last = 0;
    for (int iteration = 0; iteration < 60; ++iteration) {
      std::vector<double> exchanges;
      double free = 0;
      for (const std::vector<int>& buffer : division) {
        double begin = free;
        for (const int tensor : buffer) begin = std::max(begin, ready[static_cast<std::size_t>(tensor)]);
        exchanges.push_back(truth(100 * static_cast<std::int64_t>(buffer.size())));
        free = begin + exchanges.back();
      }
      (iteration == 0 ? first : last) = free;
      std::vector<std::uint64_t> words(adaptation.words(division.size()));
      if (words.empty()) continue;
      adaptation.write(free, ready, exchanges, words.data());
      if (const auto next = adaptation.learn(words.data(), division)) division = *next;
    }
    REQUIRE(adaptation.settled());
    REQUIRE(last <= first + 1e-9);
  }
  REQUIRE(Adaptation(find_scheme(FusionScheme::none), line, truth, 1000).settled());
}

}  // namespace weir::fusion
