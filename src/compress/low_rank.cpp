#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "compress/low_rank.cpp"
#include <hwy/foreach_target.h>
// The order matters: foreach_target.h includes this file once per instruction set.
#include <hwy/highway.h>

#include <cmath>

#include "compress/low_rank.hpp"

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
constexpr std::int64_t partials = 16;  // element i goes to partial sum i % 16, whatever the vectors' length

/// Multiplies two rows of M by one or four columns of Q.
template <int columns>
class Dots {
 public:
  HWY_INLINE void add(const float* row, const float* next, const float* q, std::int64_t q_stride, std::int64_t length) {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    for (std::int64_t part = 0; part < partials; part += lanes) {
      auto a0 = hn::LoadU(d, sums_[0] + part), b0 = hn::LoadU(d, sums_[1] + part);
      if constexpr (columns == 1) {
        for (std::int64_t i = part; i < length; i += partials) {
          const auto q0 = hn::LoadU(d, q + i);
          a0 = hn::Add(a0, hn::Mul(hn::LoadU(d, row + i), q0));
          b0 = hn::Add(b0, hn::Mul(hn::LoadU(d, next + i), q0));
        }
      } else {
        auto a1 = hn::LoadU(d, sums_[2] + part), b1 = hn::LoadU(d, sums_[3] + part);
        auto a2 = hn::LoadU(d, sums_[4] + part), b2 = hn::LoadU(d, sums_[5] + part);
        auto a3 = hn::LoadU(d, sums_[6] + part), b3 = hn::LoadU(d, sums_[7] + part);
        for (std::int64_t i = part; i < length; i += partials) {
          const auto x = hn::LoadU(d, row + i), y = hn::LoadU(d, next + i);
          const auto q0 = hn::LoadU(d, q + i), q1 = hn::LoadU(d, q + q_stride + i);
          const auto q2 = hn::LoadU(d, q + 2 * q_stride + i), q3 = hn::LoadU(d, q + 3 * q_stride + i);
          a0 = hn::Add(a0, hn::Mul(x, q0));
          b0 = hn::Add(b0, hn::Mul(y, q0));
          a1 = hn::Add(a1, hn::Mul(x, q1));
          b1 = hn::Add(b1, hn::Mul(y, q1));
          a2 = hn::Add(a2, hn::Mul(x, q2));
          b2 = hn::Add(b2, hn::Mul(y, q2));
          a3 = hn::Add(a3, hn::Mul(x, q3));
          b3 = hn::Add(b3, hn::Mul(y, q3));
        }
        hn::StoreU(a1, d, sums_[2] + part);
        hn::StoreU(b1, d, sums_[3] + part);
        hn::StoreU(a2, d, sums_[4] + part);
        hn::StoreU(b2, d, sums_[5] + part);
        hn::StoreU(a3, d, sums_[6] + part);
        hn::StoreU(b3, d, sums_[7] + part);
      }
      hn::StoreU(a0, d, sums_[0] + part);
      hn::StoreU(b0, d, sums_[1] + part);
    }
  }
  /// Adds up: partial sum j takes up j + 8, then j + 4, j + 2 and j + 1.
  [[nodiscard]] float result(int column, int row) {
    float* const sum = sums_[2 * column + row];
    for (int half = partials / 2; half > 0; half /= 2) {
      for (int lane = 0; lane < half; ++lane) sum[lane] += sum[lane + half];
    }
    return sum[0];
  }

 private:
  float sums_[2 * columns][partials] = {};
};

/// `row` and `next` have `length` elements; the rest of Q's columns meets zeros. `next` may be `row`.
template <int columns>
HWY_INLINE void dot_two_rows(const float* row, const float* next, std::int64_t length, const float* q, std::int64_t q_stride,
                             float* p, float* next_p) {
  Dots<columns> dots;
  const std::int64_t whole = length / partials * partials, left = length - whole;
  dots.add(row, next, q, q_stride, whole);
  if (left > 0) {
    float padded_row[partials] = {}, padded_next[partials] = {}, padded_q[columns * partials] = {};
    std::copy_n(row + whole, left, padded_row);
    std::copy_n(next + whole, left, padded_next);
    for (int j = 0; j < columns; ++j) std::copy_n(q + j * q_stride + whole, left, padded_q + j * partials);
    dots.add(padded_row, padded_next, padded_q, partials, partials);
  }
  for (int j = 0; j < columns; ++j) {
    p[j] = dots.result(j, 0);
    if (next != row) next_p[j] = dots.result(j, 1);
  }
}

void multiply_rows(MatrixShape shape, const float* m, const float* q, std::int64_t rank, float* p) {
  const std::int64_t rows = shape.rows(), columns = shape.columns, whole_rows = shape.whole_rows();
  const auto dot = [&](std::int64_t row, std::int64_t next, std::int64_t length) HWY_ATTR {
    const float *first = m + row * columns, *second = m + next * columns;
    float *first_p = p + row * rank, *second_p = p + next * rank;
    std::int64_t j = 0;
    for (; j + 4 <= rank; j += 4) dot_two_rows<4>(first, second, length, q + j * columns, columns, first_p + j, second_p + j);
    for (; j < rank; ++j) dot_two_rows<1>(first, second, length, q + j * columns, columns, first_p + j, second_p + j);
  };
  std::int64_t row = 0;
  for (; row + 2 <= whole_rows; row += 2) dot(row, row + 1, columns);
  if (row < whole_rows) dot(row, row, columns);
  if (whole_rows < rows) dot(whole_rows, whole_rows, shape.last_length());
}

/// Computes q += x p for one row and all columns of the factors.
HWY_INLINE void add_row(const float* x, std::int64_t length, const float* p, std::int64_t rank, float* q, std::int64_t q_stride) {
  const FloatTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < rank; ++j) {
    float* const to = q + j * q_stride;
    const float factor = p[j];
    std::int64_t i = 0;
    for (; i + lanes <= length; i += lanes)
      hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor))), d, to + i);
    for (; i < length; ++i) to[i] += x[i] * factor;
  }
}

/// Computes the same for four whole rows, in their order.
HWY_INLINE void add_four_rows(const float* x, std::int64_t columns, const float* p, std::int64_t rank, float* q) {
  const FloatTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = columns / lanes * lanes;
  const float *p1 = p + rank, *p2 = p1 + rank, *p3 = p2 + rank;
  for (std::int64_t i = 0; i < whole; i += lanes) {
    const auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + columns + i);
    const auto x2 = hn::LoadU(d, x + 2 * columns + i), x3 = hn::LoadU(d, x + 3 * columns + i);
    for (std::int64_t j = 0; j < rank; ++j) {
      auto sum = hn::LoadU(d, q + j * columns + i);
      sum = hn::Add(sum, hn::Mul(x0, hn::Set(d, p[j])));
      sum = hn::Add(sum, hn::Mul(x1, hn::Set(d, p1[j])));
      sum = hn::Add(sum, hn::Mul(x2, hn::Set(d, p2[j])));
      sum = hn::Add(sum, hn::Mul(x3, hn::Set(d, p3[j])));
      hn::StoreU(sum, d, q + j * columns + i);
    }
  }
  if (whole == columns) return;
  for (int row = 0; row < 4; ++row) add_row(x + row * columns + whole, columns - whole, p + row * rank, rank, q + whole, columns);
}

void multiply_columns(MatrixShape shape, const float* m, const float* p, std::int64_t rank, float* q) {
  const std::int64_t rows = shape.rows(), columns = shape.columns, whole_rows = shape.whole_rows();
  std::fill_n(q, rank * columns, 0.0f);
  std::int64_t row = 0;
  for (; row + 4 <= whole_rows; row += 4) add_four_rows(m + row * columns, columns, p + row * rank, rank, q);
  for (; row < rows; ++row)
    add_row(m + row * columns, row < whole_rows ? columns : shape.last_length(), p + row * rank, rank, q, columns);
}

/// Splits two rows of `m`, which may be the same row. Writes the same rows of `rest` and `out`.
class Splitter {
 public:
  Splitter(const float* p, const float* q, std::int64_t q_stride, std::int64_t rank, float factor)
      : p_(p), q_(q), q_stride_(q_stride), rank_(rank), factor_(factor) {}

  HWY_INLINE void two_rows(const float* m, float* rest, float* out, std::int64_t columns) const {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const float* const next_p = p_ + rank_;
    std::int64_t i = 0;
    for (; i + lanes <= columns; i += lanes) {
      const auto first_q = hn::LoadU(d, q_ + i);
      auto low = hn::Mul(hn::Set(d, p_[0]), first_q), next = hn::Mul(hn::Set(d, next_p[0]), first_q);
      for (std::int64_t j = 1; j < rank_; ++j) {
        const auto q = hn::LoadU(d, q_ + j * q_stride_ + i);
        low = hn::Add(low, hn::Mul(hn::Set(d, p_[j]), q));
        next = hn::Add(next, hn::Mul(hn::Set(d, next_p[j]), q));
      }
      write(d, low, m + i, rest != nullptr ? rest + i : nullptr, out + i);
      write(d, next, m + columns + i, rest != nullptr ? rest + columns + i : nullptr, out + columns + i);
    }
    for (int row = 0; row < 2 && i < columns; ++row) {
      const std::int64_t at = row * columns + i;
      Splitter(p_ + row * rank_, q_ + i, q_stride_, rank_, factor_)
          .row(m + at, rest != nullptr ? rest + at : nullptr, out + at, columns - i);
    }
  }

  HWY_INLINE void row(const float* m, float* rest, float* out, std::int64_t length) const {
    const FloatTag d;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    std::int64_t i = 0;
    for (; i + lanes <= length; i += lanes) {
      auto low = hn::Mul(hn::Set(d, p_[0]), hn::LoadU(d, q_ + i));
      for (std::int64_t j = 1; j < rank_; ++j) low = hn::Add(low, hn::Mul(hn::Set(d, p_[j]), hn::LoadU(d, q_ + j * q_stride_ + i)));
      write(d, low, m + i, rest != nullptr ? rest + i : nullptr, out + i);
    }
    for (; i < length; ++i) {
      float low = p_[0] * q_[i];
      for (std::int64_t j = 1; j < rank_; ++j) low += p_[j] * q_[j * q_stride_ + i];
      const float left = m[i] - low;
      if (rest != nullptr) rest[i] = left;
      out[i] = low * factor_;
    }
  }

 private:
  HWY_INLINE void write(FloatTag d, hn::Vec<FloatTag> low, const float* m, float* rest, float* out) const {
    const auto left = hn::Sub(hn::LoadU(d, m), low);
    if (rest != nullptr) hn::StoreU(left, d, rest);
    hn::StoreU(hn::Mul(low, hn::Set(d, factor_)), d, out);
  }

  const float *p_, *q_;
  std::int64_t q_stride_, rank_;
  float factor_;
};

void split_off_rows(MatrixShape shape, const float* m, const float* p, const float* q, std::int64_t rank, float factor, float* rest,
                    float* out) {
  const std::int64_t rows = shape.rows(), columns = shape.columns, whole_rows = shape.whole_rows();
  std::int64_t row = 0;
  const auto splitter = [&] { return Splitter(p + row * rank, q, columns, rank, factor); };
  const auto rest_row = [&] { return rest != nullptr ? rest + row * columns : nullptr; };
  for (; row + 2 <= whole_rows; row += 2) splitter().two_rows(m + row * columns, rest_row(), out + row * columns, columns);
  for (; row < rows; ++row)
    splitter().row(m + row * columns, rest_row(), out + row * columns, row < whole_rows ? columns : shape.last_length());
}

}  // namespace
}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weir::compress {
namespace {

HWY_EXPORT(multiply_rows);
HWY_EXPORT(multiply_columns);
HWY_EXPORT(split_off_rows);

}  // namespace

MatrixShape matrix_shape(std::int64_t count, std::int64_t columns) {
  if (count == 0) return {};
  if (columns > 0) return {count, std::min(columns, count)};
  auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(count)));
  while (side * side < count) ++side;
  while ((side - 1) * (side - 1) >= count) --side;
  return {count, side < 64 ? side : ((side + 15) / 16 | 1) * 16};
}

void multiply(MatrixShape shape, const float* m, const float* q, std::int64_t rank, float* p) {
  HWY_DYNAMIC_DISPATCH(multiply_rows)(shape, m, q, rank, p);
}

void multiply_transposed(MatrixShape shape, const float* m, const float* p, std::int64_t rank, float* q) {
  HWY_DYNAMIC_DISPATCH(multiply_columns)(shape, m, p, rank, q);
}

void split_off(MatrixShape shape, const float* m, const float* p, const float* q, std::int64_t rank, float factor, float* rest,
               float* out) {
  HWY_DYNAMIC_DISPATCH(split_off_rows)(shape, m, p, q, rank, factor, rest, out);
}

void orthogonalise(float* p, std::int64_t rows, std::int64_t rank, double* scratch) {
  constexpr double independent = 0x1p-18;  // rounding leaves about 2^-22 of a dependent column
  for (std::int64_t j = 0; j < rank; ++j) {
    double before = 0, after = 0;
    // Classical Gram-Schmidt, twice: the second pass removes what rounding has left of the first (Giraud et al., 2005). The third
    // measures what remains. Sums are in double, so that they neither overflow nor vanish.
    for (int pass = 0; pass < 3; ++pass) {
      std::fill_n(scratch, j + 1, 0.0);
      for (std::int64_t i = 0; i < rows; ++i) {
        const float* const row = p + i * rank;
        const auto x = static_cast<double>(row[j]);
        for (std::int64_t earlier = 0; earlier <= j; ++earlier) scratch[earlier] += static_cast<double>(row[earlier]) * x;
      }
      after = std::sqrt(scratch[j]);
      if (pass == 0) before = after;
      if (pass == 2 || !(after > independent * before)) break;
      for (std::int64_t i = 0; i < rows && j > 0; ++i) {
        float* const row = p + i * rank;
        double x = static_cast<double>(row[j]);
        for (std::int64_t earlier = 0; earlier < j; ++earlier) x -= scratch[earlier] * static_cast<double>(row[earlier]);
        row[j] = static_cast<float>(x);
      }
    }
    const double scale = after > independent * before ? 1 / after : 0;
    for (std::int64_t i = 0; i < rows; ++i) p[i * rank + j] = static_cast<float>(static_cast<double>(p[i * rank + j]) * scale);
  }
}

}  // namespace weir::compress
#endif
