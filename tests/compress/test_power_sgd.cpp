// PowerSGD against a slow implementation in double, and its error against that of the best approximation of its rank.
#include <cmath>
#include <random>

#include "compress/linear_runs.hpp"
#include "compress/low_rank.hpp"
#include "compress/philox.hpp"
#include "support/saved_states.hpp"

namespace weir::test {
namespace {

using compress::MatrixShape;
using Floats = std::vector<float>;

/// A matrix, stored row by row.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> x;

  Matrix(std::int64_t rows_of_it, std::int64_t columns_of_it)
      : rows(rows_of_it), columns(columns_of_it), x(static_cast<std::size_t>(rows * columns)) {}
  double& operator()(std::int64_t row, std::int64_t column) { return x[static_cast<std::size_t>(row * columns + column)]; }
  double operator()(std::int64_t row, std::int64_t column) const { return x[static_cast<std::size_t>(row * columns + column)]; }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
    }
  }
  return c;
}
Matrix transposed(const Matrix& a) {
  Matrix b(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) b(j, i) = a(i, j);
  }
  return b;
}
double norm(const Matrix& a) {
  double squares = 0;
  for (const double x : a.x) squares += x * x;
  return std::sqrt(squares);
}
double distance(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.x.size(); ++i) a.x[i] -= b.x[i];
  return norm(a);
}

/// Orthogonalises columns by modified Gram-Schmidt.
void make_orthogonal(Matrix& p) {
  for (std::int64_t j = 0; j < p.columns; ++j) {
    for (int pass = 0; pass < 2; ++pass) {
      for (std::int64_t earlier = 0; earlier < j; ++earlier) {
        double dot = 0;
        for (std::int64_t i = 0; i < p.rows; ++i) dot += p(i, j) * p(i, earlier);
        for (std::int64_t i = 0; i < p.rows; ++i) p(i, j) -= dot * p(i, earlier);
      }
    }
    double squares = 0;
    for (std::int64_t i = 0; i < p.rows; ++i) squares += p(i, j) * p(i, j);
    for (std::int64_t i = 0; i < p.rows; ++i) p(i, j) /= std::sqrt(squares);
  }
}

/// Returns the error of the best approximation of rank r, by many power iterations.
double best_error(const Matrix& m, std::int64_t rank) {
  Matrix q(m.columns, rank);
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (double& x : q.x) x = normal(random);
  for (int t = 0; t < 500; ++t) {
    Matrix p = product(m, q);
    make_orthogonal(p);
    q = product(transposed(m), p);
    if (t == 499) return distance(product(p, transposed(q)), m);
  }
  return 0;
}

Matrix matrix_of(const MatrixShape& shape, const std::vector<Floats>& vectors, double divisor) {
  Matrix m(shape.rows(), shape.columns);
  for (const Floats& x : vectors) {
    for (std::size_t i = 0; i < x.size(); ++i) m.x[i] += static_cast<double>(x[i]) / divisor;
  }
  return m;
}

/// PowerSGD in double, with the library's start.
class SlowPowerSgd {
 public:
  SlowPowerSgd(const MatrixShape& shape, std::int64_t rank, int ranks) : shape_(shape), q_(shape.columns, rank) {
    const Draw draw{.seed = 17, .iteration = 0, .stream = static_cast<std::uint32_t>(ranks)};
    for (std::int64_t j = 0; j < rank; ++j) {
      for (std::int64_t i = 0; i < shape.columns; ++i) {
        const auto bits = compress::random_bits(draw, static_cast<std::uint64_t>(j * shape.columns + i));
        q_(i, j) = 2 * static_cast<double>(compress::uniform_of(bits)) - (1 - 0x1p-16);
      }
    }
  }
  Matrix step(const Matrix& mean) {
    Matrix p = product(mean, q_);
    make_orthogonal(p);
    q_ = product(transposed(mean), p);
    return product(p, transposed(q_));
  }

 private:
  MatrixShape shape_;
  Matrix q_;
};

/// Returns a few strong directions that all ranks share, with noise of each rank and iteration.
Floats gradient(std::int64_t n, int rank, int iteration, double noise, double scale = 1) {
  const MatrixShape shape = compress::matrix_shape(n, 0);
  std::mt19937 shared(5), own(static_cast<unsigned>(100 + 31 * rank + 7 * iteration));
  std::normal_distribution<double> normal;
  std::vector<double> sum(static_cast<std::size_t>(n));
  for (int k = 0; k < 3; ++k) {
    std::vector<double> left(static_cast<std::size_t>(shape.rows())), right(static_cast<std::size_t>(shape.columns));
    for (double& x : left) x = normal(shared) / (k + 1);
    for (double& x : right) x = normal(shared);
    for (std::int64_t i = 0; i < n; ++i)
      sum[static_cast<std::size_t>(i)] +=
          left[static_cast<std::size_t>(i / shape.columns)] * right[static_cast<std::size_t>(i % shape.columns)];
  }
  Floats x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(scale * (sum[i] + noise * normal(own)));
  return x;
}

LinearCase power_sgd(std::int64_t n, int ranks, const std::string& parameters) {
  return {.compressor = "power_sgd", .parameters = parameters, .count = n, .ranks = ranks, .divisor = static_cast<double>(ranks)};
}

}  // namespace

TEST_CASE("PowerSGD does what Algorithm 1 does in double", "[power_sgd]") {
  struct Case {
    std::int64_t n, columns, rank;
  };
  for (const Case& c :
       {Case{1, 0, 1}, {2, 0, 1}, {7, 0, 2}, {100, 0, 3}, {1001, 0, 4}, {1001, 50, 2}, {999, 333, 3}, {5000, 0, 5}}) {
    for (const int ranks : {1, 2, 3, 5}) {
      CAPTURE(c.n, c.columns, c.rank, ranks);
      LinearCase test = power_sgd(c.n, ranks, "rank=" + std::to_string(c.rank) + ",columns=" + std::to_string(c.columns));
      test.divisor = 2;
      const auto results = run_linear(test, 4, [&](int rank, int t) { return gradient(c.n, rank, t, 0.3); });
      const MatrixShape shape = compress::matrix_shape(c.n, c.columns);
      SlowPowerSgd slow(shape, c.rank, ranks);
      for (const LinearResult& result : results) {
        REQUIRE(linear_law(test, result) == "");
        const Matrix mean = matrix_of(shape, result.values, ranks), expected = slow.step(mean);
        const Matrix delivered = matrix_of(shape, {result.out[0]}, ranks / test.divisor);
        double error = 0;  // the missing elements of the last row are not delivered
        for (std::size_t i = 0; i < static_cast<std::size_t>(c.n); ++i)
          error += (delivered.x[i] - expected.x[i]) * (delivered.x[i] - expected.x[i]);
        REQUIRE(std::sqrt(error) <= 2e-5 * norm(mean));
      }
    }
  }
}

TEST_CASE("with a warm start PowerSGD comes close to the best approximation", "[power_sgd]") {
  constexpr std::int64_t n = 40 * 40;
  for (const int ranks : {1, 3}) {
    for (const int rank : {1, 3, 4}) {
      CAPTURE(ranks, rank);
      const auto results =
          run_linear(power_sgd(n, ranks, "rank=" + std::to_string(rank)), 20, [&](int r, int) { return gradient(n, r, 0, 0.5); });
      const MatrixShape shape = compress::matrix_shape(n, 0);
      const Matrix mean = matrix_of(shape, results[0].values, ranks);
      const double best = best_error(mean, rank);
      const auto error = [&](std::size_t t) { return distance(matrix_of(shape, {results[t].out[0]}, 1), mean); };
      REQUIRE(error(19) <= 1.01 * best);
      REQUIRE(error(19) >= 0.9999 * best);
      REQUIRE(error(19) < error(0));
    }
  }
}

TEST_CASE("PowerSGD gives the same bits whatever the order of messages and which arrays are one", "[power_sgd]") {
  constexpr std::int64_t n = 3001;
  const LinearCase test = power_sgd(n, 3, "rank=3");
  const auto values = [&](int rank, int t) { return gradient(n, rank, t, 1); };
  const auto results = run_linear(test, 3, values);
  for (const Aliases aliases : {Aliases::none, Aliases::out, Aliases::rest, Aliases::no_rest}) {
    const auto again = run_linear(test, 3, values, aliases, 7);
    for (std::size_t t = 0; t < results.size(); ++t) {
      REQUIRE(again[t].out == results[t].out);
      if (aliases != Aliases::no_rest) REQUIRE(again[t].rest == results[t].rest);
    }
  }
}

TEST_CASE("PowerSGD takes zero, and matrices of a lower rank, and goes on", "[power_sgd]") {
  constexpr std::int64_t n = 30 * 30;
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    const LinearCase test = power_sgd(n, ranks, "rank=4");
    // Zero on every rank; zero in sum; one direction; zero again; three directions, twice.
    const auto results = run_linear(test, 7, [&](int rank, int t) {
      Floats x(n);
      if (t == 1 && ranks == 2) std::fill(x.begin(), x.end(), rank == 0 ? 1.5f : -1.5f);
      if (t == 2) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i / 30 + 1) * std::sin(static_cast<float>(i % 30));
      }
      if (t > 3) x = gradient(n, 0, 0, 0);
      return x;
    });
    const MatrixShape shape = compress::matrix_shape(n, 0);
    for (std::size_t t = 0; t < results.size(); ++t) {
      CAPTURE(t);
      REQUIRE(linear_law(test, results[t]) == "");
      const Matrix mean = matrix_of(shape, results[t].values, ranks);
      REQUIRE(distance(matrix_of(shape, {results[t].out[0]}, 1), mean) <= 2e-6 * norm(mean));
      if (norm(mean) == 0) REQUIRE(results[t].rest == results[t].values);
    }
  }
}

TEST_CASE("PowerSGD takes tiny and large values", "[power_sgd]") {
  constexpr std::int64_t n = 30 * 30;
  for (const double scale : {1e-30, 1e-20, 1e10, 1e30}) {
    CAPTURE(scale);
    const auto results = run_linear(power_sgd(n, 2, "rank=3"), 4, [&](int rank, int t) { return gradient(n, rank, t, 0, scale); });
    const MatrixShape shape = compress::matrix_shape(n, 0);
    for (const LinearResult& result : results) {
      const Matrix mean = matrix_of(shape, result.values, 2);
      REQUIRE(distance(matrix_of(shape, {result.out[0]}, 1), mean) <= 1e-5 * norm(mean));
    }
  }
}

TEST_CASE("PowerSGD delivers NaN where a value is not finite, and begins anew", "[power_sgd]") {
  constexpr std::int64_t n = 1000;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::size_t place : {0, 500, 999}) {
      const auto results = run_linear(power_sgd(n, 3, "rank=2"), 3, [&](int rank, int t) {
        Floats x = gradient(n, rank, t, 0.1);
        if (t == 1 && rank == 1) x[place] = bad;
        return x;
      });
      for (std::size_t rank = 0; rank < 3; ++rank) {
        for (const float x : results[1].out[rank]) REQUIRE(std::isnan(x));
        REQUIRE(results[1].rest[rank] == Floats(n));
      }
      REQUIRE(linear_law(power_sgd(n, 3, ""), results[2]) == "");
    }
  }
}

TEST_CASE("PowerSGD goes on from a saved state, and begins anew after a reset", "[power_sgd]") {
  constexpr std::int64_t n = 2000;
  const LinearCase test = power_sgd(n, 2, "rank=3");
  RankCheck check;
  run_ranks(2, [&](Communicator& comm) {
    LinearRank going(test, comm);
    Floats values, rest(n), out(n), other_rest(n), other_out(n);
    const auto run = [&](LinearRank& rank, int t, Floats& rest_of_it, Floats& out_of_it) {
      values = gradient(n, comm.rank(), t, 1);
      rank.run(static_cast<std::uint64_t>(t), values, rest_of_it, out_of_it);
    };
    run(going, 0, rest, out);
    const Floats first = out;
    run(going, 1, rest, out);
    const SavedState saved = save_state(going.exchange());
    LinearRank restored(test, comm);
    restore_state(restored.exchange(), saved, "it");
    check.that(first_difference(save_state(restored.exchange()), saved).empty(), "the state is another");
    for (int t = 2; t < 4; ++t) {
      run(going, t, rest, out);
      run(restored, t, other_rest, other_out);
      check.that(rest == other_rest && out == other_out, "it does not go on");
      check.that(going.allocations() == 0, "a run allocates");
    }
    going.exchange().reset();
    run(going, 0, rest, out);
    check.that(out == first, "a reset leaves something");
    try {
      LinearRank other(power_sgd(n, 2, "rank=2"), comm);
      restore_state(other.exchange(), saved, "it");
      check.that(false, "another rank is accepted");
    } catch (const Error& error) {
      check.that(std::string(error.what()).find("rank") != std::string::npos, error.what());
    }
  });
  REQUIRE(check.failure() == "");
}

TEST_CASE("PowerSGD has no higher rank than its matrix", "[power_sgd]") {
  for (const auto& [n, parameters] :
       {std::pair<std::int64_t, std::string>{1, ""}, {2, ""}, {8, "rank=4"}, {100, "rank=9,columns=3"}}) {
    CAPTURE(n, parameters);
    const LinearCase test = power_sgd(n, 2, parameters);
    const auto results = run_linear(test, 2, [n = n](int rank, int t) { return gradient(n, rank, t, 1); });
    for (const LinearResult& result : results) {
      REQUIRE(linear_law(test, result) == "");
      const MatrixShape shape = compress::matrix_shape(n, 0);
      const Matrix mean = matrix_of(shape, result.values, 2);
      REQUIRE(distance(matrix_of(shape, {result.out[0]}, 1), mean) <= 1e-5 * norm(mean));
    }
  }
  const auto nothing = run_linear(power_sgd(0, 2, ""), 1, [](int, int) { return Floats(); });
  REQUIRE(nothing[0].out[0].empty());
}

}  // namespace weir::test
