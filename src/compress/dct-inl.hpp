// dct-inl.hpp: orthonormal two-dimensional discrete cosine transforms (DCT-II) of 8 to 256 rows and columns, and their inverse;
// compiled once per instruction set, as Highway's foreach_target.h asks.
//
// The algorithm is fast and stable: a DCT-II is a DCT-II of half the size, of sums, and a DCT-IV of differences; a DCT-IV is two
// DCT-II of rotated values (Plonka, Tasche: Fast and numerically stable algorithms for discrete cosine transforms; Linear Algebra
// and its Applications 394, 2005). Lanes are columns. Between rows and columns the matrix is transposed. The order of all
// operations is fixed.
#if defined(WEIR_COMPRESS_DCT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef WEIR_COMPRESS_DCT_INL
#undef WEIR_COMPRESS_DCT_INL
#else
#define WEIR_COMPRESS_DCT_INL
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

HWY_BEFORE_NAMESPACE();
namespace weir::compress::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

class Dct {
 public:
  static constexpr int most_side = 256;

  /// `rows` and `columns` must be powers of two from 8 to 256.
  Dct(int rows, int columns) : rows_(rows), columns_(columns) {}

  [[nodiscard]] std::int64_t size() const { return std::int64_t{rows_} * columns_; }
  /// Transforms x. Coefficient (u, v) of x[row * columns + column] is out[v * rows + u]. `scratch` has room for size(); the arrays
  /// must not overlap.
  void forward(const float* HWY_RESTRICT x, float* HWY_RESTRICT out, float* HWY_RESTRICT scratch) const {
    pass<false, true>(x, rows_, columns_, scratch);
    pass<false, false>(scratch, columns_, rows_, out);
  }
  /// Inverts forward(). `out` may be `coefficients`.
  void inverse(const float* coefficients, float* out, float* HWY_RESTRICT scratch) const {
    pass<true, true>(coefficients, columns_, rows_, scratch);
    pass<true, false>(scratch, rows_, columns_, out);
  }

 private:
  using Tag = hn::CappedTag<float, 16>;
  static constexpr int most_lanes = 16;

  /// Transforms the columns of a matrix. With `transposed`, writes the result by columns.
  template <bool inverse, bool transposed>
  static void pass(const float* HWY_RESTRICT x, int rows, int columns, float* HWY_RESTRICT out) {
    const Tag d;
    const int lanes = static_cast<int>(hn::Lanes(d));
    const float first = std::sqrt(1 / static_cast<float>(rows)), others = std::sqrt(2 / static_cast<float>(rows));
    HWY_ALIGN float strip[most_side * most_lanes];
    HWY_ALIGN float spare[most_side * most_lanes];
    for (int column = 0; column < columns; column += lanes) {
      const int width = std::min(lanes, columns - column);
      for (int row = 0; row < rows; ++row) {
        float* const to = strip + row * lanes;
        const float* const from = x + row * columns + column;
        auto values = hn::Zero(d);
        if (width == lanes) {
          values = hn::LoadU(d, from);
        } else {
          std::fill_n(to, lanes, 0.0f);
          std::copy_n(from, width, to);
          values = hn::Load(d, to);
        }
        hn::Store(inverse ? hn::Mul(values, hn::Set(d, row == 0 ? first : others)) : values, d, to);
      }
      transform<inverse>(rows, strip, spare);
      if constexpr (!inverse) {
        for (int row = 0; row < rows; ++row)
          hn::Store(hn::Mul(hn::Load(d, strip + row * lanes), hn::Set(d, row == 0 ? first : others)), d, strip + row * lanes);
      }
      if constexpr (transposed) {
        transpose(strip, rows, lanes, width, out + column * rows);
      } else if (width == lanes) {
        for (int row = 0; row < rows; ++row) hn::StoreU(hn::Load(d, strip + row * lanes), d, out + row * columns + column);
      } else {
        for (int row = 0; row < rows; ++row) std::copy_n(strip + row * lanes, width, out + row * columns + column);
      }
    }
  }

  /// Sets out[column * rows + row] = strip[row * lanes + column] for `width` columns. `rows` and `width` are multiples of 4, or
  /// there are fewer lanes.
  static void transpose(const float* HWY_RESTRICT strip, int rows, int lanes, int width, float* HWY_RESTRICT out) {
#if HWY_TARGET != HWY_SCALAR
    if (lanes >= 4) {
      const hn::FixedTag<float, 4> d;
      const hn::Repartition<double, decltype(d)> pairs;
      for (int row = 0; row < rows; row += 4) {
        for (int column = 0; column < width; column += 4) {
          const float* const from = strip + row * lanes + column;
          const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + lanes), c = hn::LoadU(d, from + 2 * lanes),
                     e = hn::LoadU(d, from + 3 * lanes);
          const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b)),
                     ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
          const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b)),
                     ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
          float* const to = out + column * rows + row;
          hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, to);
          hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, to + rows);
          hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, to + 2 * rows);
          hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, to + 3 * rows);
        }
      }
      return;
    }
#endif
    for (int column = 0; column < width; ++column) {
      for (int row = 0; row < rows; ++row) out[column * rows + row] = strip[row * lanes + column];
    }
  }

  template <bool inverse>
  static void transform(int rows, float* HWY_RESTRICT x, float* HWY_RESTRICT spare) {
    switch (rows) {
      case 8:
        return of_size<inverse, 8>(x, spare);
      case 16:
        return of_size<inverse, 16>(x, spare);
      case 32:
        return of_size<inverse, 32>(x, spare);
      case 64:
        return of_size<inverse, 64>(x, spare);
      case 128:
        return of_size<inverse, 128>(x, spare);
      default:
        return of_size<inverse, 256>(x, spare);
    }
  }
  template <bool inverse, int n>
  static void of_size(float* HWY_RESTRICT x, float* HWY_RESTRICT spare) {
    if constexpr (inverse) {
      dct3<n>(x, spare);
    } else {
      dct2<n>(x, spare);
    }
  }

  /// Computes the cosine by Taylor's series, so that the tables do not depend on the mathematical library.
  [[nodiscard]] static constexpr double cosine(double angle) {
    double sum = 0, term = 1;
    for (int i = 0; i < 16; ++i) {
      sum += term;
      term *= -angle * angle / ((2 * i + 1) * (2 * i + 2));
    }
    return sum;
  }
  struct Rotation {
    float cosine, sine;
  };
  /// Returns the rotations of element i and its mirror image by pi (2 i + 1) / (4 n).
  template <int n>
  [[nodiscard]] static constexpr std::array<Rotation, n / 2> rotations() {
    std::array<Rotation, n / 2> table{};
    for (int i = 0; i < n / 2; ++i) {
      const double angle = std::numbers::pi * (2 * i + 1) / (4 * n);
      table[static_cast<std::size_t>(i)] = {static_cast<float>(cosine(angle)),
                                            static_cast<float>(cosine(std::numbers::pi / 2 - angle))};
    }
    return table;
  }

  static HWY_INLINE hn::Vec<Tag> at(const float* x, int row) {
    return hn::Load(Tag(), x + row * static_cast<int>(hn::Lanes(Tag())));
  }
  static HWY_INLINE void put(hn::Vec<Tag> values, float* x, int row) {
    hn::Store(values, Tag(), x + row * static_cast<int>(hn::Lanes(Tag())));
  }
  static HWY_INLINE float* from_row(float* x, int row) { return x + row * static_cast<int>(hn::Lanes(Tag())); }

  /// Computes x[k] = sum of x[i] cos(pi k (2 i + 1) / (2 n)) over i < n; `spare` is as long as x.
  template <int n>
  static HWY_INLINE void dct2(float* HWY_RESTRICT x, float* HWY_RESTRICT spare) {
    if constexpr (n > 1) {
      for (int i = 0; i < n / 2; ++i) {
        const auto a = at(x, i), b = at(x, n - 1 - i);
        put(hn::Add(a, b), spare, i);
        put(hn::Sub(a, b), spare, n / 2 + i);
      }
      dct2<n / 2>(spare, x);
      dct4<n / 2>(from_row(spare, n / 2), x);
      for (int i = 0; i < n / 2; ++i) {
        put(at(spare, i), x, 2 * i);
        put(at(spare, n / 2 + i), x, 2 * i + 1);
      }
    }
  }

  /// Computes the transpose of dct2: x[i] = sum of x[k] cos(pi k (2 i + 1) / (2 n)) over k < n.
  template <int n>
  static HWY_INLINE void dct3(float* HWY_RESTRICT x, float* HWY_RESTRICT spare) {
    if constexpr (n > 1) {
      for (int i = 0; i < n / 2; ++i) {
        put(at(x, 2 * i), spare, i);
        put(at(x, 2 * i + 1), spare, n / 2 + i);
      }
      dct3<n / 2>(spare, x);
      dct4<n / 2>(from_row(spare, n / 2), x);
      for (int i = 0; i < n / 2; ++i) {
        const auto a = at(spare, i), b = at(spare, n / 2 + i);
        put(hn::Add(a, b), x, i);
        put(hn::Sub(a, b), x, n - 1 - i);
      }
    }
  }

  /// Computes x[k] = sum of x[i] cos(pi (2 k + 1) (2 i + 1) / (4 n)) over i < n, which is its own transpose.
  template <int n>
  static void dct4(float* HWY_RESTRICT x, float* HWY_RESTRICT spare) {
    const Tag d;
    if constexpr (n == 1) {
      put(hn::Mul(at(x, 0), hn::Set(d, static_cast<float>(std::numbers::sqrt2 / 2))), x, 0);
    } else {
      static constexpr std::array<Rotation, n / 2> table = rotations<n>();
      for (int i = 0; i < n / 2; ++i) {
        const auto c = hn::Set(d, table[static_cast<std::size_t>(i)].cosine),
                   s = hn::Set(d, table[static_cast<std::size_t>(i)].sine);
        const auto a = at(x, i), b = at(x, n - 1 - i);
        put(hn::Add(hn::Mul(a, c), hn::Mul(b, s)), spare, i);
        const auto as = hn::Mul(a, s), bc = hn::Mul(b, c);
        put(i % 2 == 0 ? hn::Sub(as, bc) : hn::Sub(bc, as), spare, n / 2 + i);
      }
      dct2<n / 2>(spare, x);
      dct2<n / 2>(from_row(spare, n / 2), x);
      put(at(spare, 0), x, 0);
      put(at(spare, n / 2), x, n - 1);
      for (int k = 1; k < n / 2; ++k) {
        const auto a = at(spare, k), b = at(spare, n - k);
        put(hn::Add(a, b), x, 2 * k - 1);
        put(hn::Sub(a, b), x, 2 * k);
      }
    }
  }

  int rows_, columns_;
};

}  // namespace weir::compress::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
