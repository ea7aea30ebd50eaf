// low_rank.hpp equals loops that do the same in the same order, bit for bit, on every instruction set.
#include <cmath>
#include <random>
#include <vector>

#include "compress/instruction_sets.hpp"
#include "compress/low_rank.hpp"
#include "support/catch.hpp"

namespace weir::test {
namespace {

using compress::MatrixShape;
using Floats = std::vector<float>;

Floats normal_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats x(static_cast<std::size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

float element(const MatrixShape& shape, const Floats& m, std::int64_t row, std::int64_t column) {
  const std::int64_t at = row * shape.columns + column;
  return at < shape.count ? m[static_cast<std::size_t>(at)] : 0.0f;
}

Floats slow_multiply(const MatrixShape& shape, const Floats& m, const Floats& q, std::int64_t rank) {
  Floats p;
  for (std::int64_t row = 0; row < shape.rows(); ++row) {
    const std::int64_t length = row < shape.whole_rows() ? shape.columns : shape.last_length();
    for (std::int64_t j = 0; j < rank; ++j) {
      float sums[16] = {};
      for (std::int64_t i = 0; i < (length + 15) / 16 * 16; ++i) {
        const float product = i < length ? element(shape, m, row, i) * q[static_cast<std::size_t>(j * shape.columns + i)] : 0.0f;
        sums[i % 16] += product;
      }
      for (int half = 8; half > 0; half /= 2) {
        for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
      }
      p.push_back(sums[0]);
    }
  }
  return p;
}

Floats slow_multiply_transposed(const MatrixShape& shape, const Floats& m, const Floats& p, std::int64_t rank) {
  Floats q(static_cast<std::size_t>(rank * shape.columns));
  for (std::int64_t j = 0; j < rank; ++j) {
    for (std::int64_t column = 0; column < shape.columns; ++column) {
      float sum = 0;
      for (std::int64_t row = 0; row < shape.rows(); ++row) {
        const float product = element(shape, m, row, column) * p[static_cast<std::size_t>(row * rank + j)];
        sum += product;
      }
      q[static_cast<std::size_t>(j * shape.columns + column)] = sum;
    }
  }
  return q;
}

struct Split {
  Floats rest, out;
  friend bool operator==(const Split&, const Split&) = default;
};
Split slow_split_off(const MatrixShape& shape, const Floats& m, const Floats& p, const Floats& q, std::int64_t rank, float factor) {
  Split split;
  for (std::int64_t i = 0; i < shape.count; ++i) {
    const std::int64_t row = i / shape.columns, column = i % shape.columns;
    float low = 0;
    for (std::int64_t j = 0; j < rank; ++j) {
      const float product = p[static_cast<std::size_t>(row * rank + j)] * q[static_cast<std::size_t>(j * shape.columns + column)];
      low = j == 0 ? product : low + product;
    }
    split.rest.push_back(m[static_cast<std::size_t>(i)] - low);
    split.out.push_back(low * factor);
  }
  return split;
}

/// Returns the product of columns i and j in double.
double column_product(const Floats& p, std::int64_t rank, std::int64_t i, std::int64_t j) {
  double sum = 0;
  for (std::size_t row = 0; row < p.size() / static_cast<std::size_t>(rank); ++row)
    sum += static_cast<double>(p[row * static_cast<std::size_t>(rank) + static_cast<std::size_t>(i)]) *
           static_cast<double>(p[row * static_cast<std::size_t>(rank) + static_cast<std::size_t>(j)]);
  return sum;
}

void orthogonalise(Floats& p, std::int64_t rank) {
  std::vector<double> scratch(static_cast<std::size_t>(rank));
  compress::orthogonalise(p.data(), static_cast<std::int64_t>(p.size()) / rank, rank, scratch.data());
}

}  // namespace

TEST_CASE("a vector becomes a matrix as nearly square as possible", "[low_rank]") {
  for (const std::int64_t count : {1, 2, 3, 4, 5, 9, 10, 100, 4095, 4096}) {
    const MatrixShape shape = compress::matrix_shape(count, 0);
    const auto root = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    CAPTURE(count);
    REQUIRE(shape.columns == (root < 64 ? root : 80));
    REQUIRE(shape.rows() * shape.columns >= count);
    REQUIRE((shape.rows() - 1) * shape.columns < count);
    REQUIRE(shape.whole_rows() * shape.columns + shape.last_length() == count);
  }
  REQUIRE(compress::matrix_shape(1 << 24, 0).columns == 4112);
  REQUIRE(compress::matrix_shape(0, 5).rows() == 0);
  REQUIRE(compress::matrix_shape(10, 4).rows() == 3);
  REQUIRE(compress::matrix_shape(3, 1000).columns == 3);
}

TEST_CASE("products have the same bits on every instruction set", "[low_rank]") {
  for (const auto& [count, columns] :
       {std::pair{1, 1}, {7, 3}, {31, 16}, {1000, 33}, {1001, 0}, {5000, 64}, {513, 512}, {4099, 17}}) {
    const MatrixShape shape = compress::matrix_shape(count, columns);
    const Floats m = normal_numbers(count, 1);
    for (const std::int64_t rank : {1, 2, 3, 4, 5, 9}) {
      const Floats q = normal_numbers(rank * shape.columns, 2);
      const Floats p = slow_multiply(shape, m, q, rank), next_q = slow_multiply_transposed(shape, m, p, rank);
      const Split split = slow_split_off(shape, m, p, next_q, rank, 0.375f);
      for_each_instruction_set([&](const char* name) {
        CAPTURE(name, count, columns, rank);
        Floats product(p.size(), -7), transposed(q.size(), -7);
        compress::multiply(shape, m.data(), q.data(), rank, product.data());
        REQUIRE(product == p);
        compress::multiply_transposed(shape, m.data(), p.data(), rank, transposed.data());
        REQUIRE(transposed == next_q);
        Split apart{Floats(m.size()), Floats(m.size())}, in_rest{m, Floats(m.size())}, in_out{Floats(m.size()), m};
        compress::split_off(shape, m.data(), p.data(), next_q.data(), rank, 0.375f, apart.rest.data(), apart.out.data());
        REQUIRE(apart == split);
        compress::split_off(shape, in_rest.rest.data(), p.data(), next_q.data(), rank, 0.375f, in_rest.rest.data(),
                            in_rest.out.data());
        REQUIRE(in_rest == split);
        compress::split_off(shape, in_out.out.data(), p.data(), next_q.data(), rank, 0.375f, in_out.rest.data(), in_out.out.data());
        REQUIRE(in_out == split);
        Floats out = m;
        compress::split_off(shape, out.data(), p.data(), next_q.data(), rank, 0.375f, nullptr, out.data());
        REQUIRE(out == split.out);
      });
    }
  }
}

TEST_CASE("columns become orthogonal, however nearly they depend on each other", "[low_rank]") {
  for (const std::int64_t rows : {1, 2, 5, 64, 1000}) {
    for (const std::int64_t rank : {1, 2, 3, 8}) {
      if (rank > rows) continue;
      for (const float apart : {1.0f, 1e-3f, 1e-4f}) {
        CAPTURE(rows, rank, apart);
        Floats p = normal_numbers(rows * rank, 3);
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 1; j < rank; ++j) {
            float& x = p[static_cast<std::size_t>(i * rank + j)];
            x = 1e-20f * (p[static_cast<std::size_t>(i * rank)] + apart * x);
          }
        }
        orthogonalise(p, rank);
        for (std::int64_t i = 0; i < rank; ++i) {
          for (std::int64_t j = 0; j <= i; ++j) REQUIRE(std::abs(column_product(p, rank, i, j) - (i == j ? 1 : 0)) < 2e-6);
        }
      }
    }
  }
}

TEST_CASE("a column that depends on others becomes zero", "[low_rank]") {
  constexpr std::int64_t rows = 300, rank = 4;
  Floats p = normal_numbers(rows * rank, 4);
  for (std::int64_t i = 0; i < rows; ++i) {
    float* const row = p.data() + i * rank;
    row[1] = 0;
    row[2] = -3 * row[0];
  }
  orthogonalise(p, rank);
  for (std::int64_t i = 0; i < rank; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      const bool one = i == j && (i == 0 || i == 3);
      REQUIRE(std::abs(column_product(p, rank, i, j) - (one ? 1 : 0)) < 1e-6);
      if (i == 1 || i == 2) REQUIRE(column_product(p, rank, i, j) == 0);
    }
  }
  Floats tiny(rows, 1e-45f);
  orthogonalise(tiny, 1);
  REQUIRE(std::abs(column_product(tiny, 1, 0, 0) - 1) < 1e-6);
  Floats large(rows, 3e38f);
  orthogonalise(large, 1);
  REQUIRE(std::abs(column_product(large, 1, 0, 0) - 1) < 1e-6);
}

}  // namespace weir::test
