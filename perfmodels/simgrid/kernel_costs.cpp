// kernel_costs.cpp: charges the costs of computing on the simulated machine. Every kernel moves the bytes that its contract names
// (src/kernels/kernels.hpp). The codec reads arrays and writes a message, or the reverse (src/codec/wire.hpp). The memory bandwidth
// is the speed of a host in the platform file, one byte for one flop. These costs are deterministic; timing the kernels of hundreds
// of ranks on one machine is not. Arithmetic on indices alone is free.
//
// The program is linked with --wrap for each symbol below. CMakeLists.txt reads the symbols from this file. check_kernel_costs.sh
// refuses a program with a float kernel that has no row here, or with a row whose symbol the library lacks.
#include <smpi/smpi.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "codec/wire.hpp"
#include "kernels/kernels.hpp"
#include "sums/arithmetic.hpp"
#include "sums/array_part.hpp"
#include "sums/entry_code.hpp"

namespace weir {
namespace {

using std::int64_t;
using std::uint32_t;
using std::uint64_t;

using wire::Wire;

constexpr int64_t scattered = 32;  // bytes moved for one float at a random place: a sector of GPU memory

void charge(int64_t bytes) {
  if (bytes > 0) smpi_execute_flops(static_cast<double>(bytes));
}

}  // namespace

// If arrays have no values (weir_simulate_pto), kernels only charge their costs and return zeros.
#ifdef WEIR_WITHOUT_VALUES
constexpr bool with_values = false;
#else
constexpr bool with_values = true;
#endif

// CHARGED(symbol, result type, parameters, arguments, bytes): `bytes` may use `result`.
#define CHARGED(symbol, type, parameters, arguments, bytes)               \
  extern "C" type __real_##symbol parameters;                             \
  extern "C" type __wrap_##symbol parameters {                            \
    const type result = with_values ? __real_##symbol arguments : type{}; \
    charge(bytes);                                                        \
    return result;                                                        \
  }
#define CHARGED_VOID(symbol, parameters, arguments, bytes) \
  extern "C" void __real_##symbol parameters;              \
  extern "C" void __wrap_##symbol parameters {             \
    if (with_values) __real_##symbol arguments;            \
    charge(bytes);                                         \
  }

CHARGED(_ZN4weir7kernels4host17compensate_selectIfEElPKT_PS3_lNSt11conditionalIXeqstS3_Li4EEjmE4typeES9_PjS6_l, int64_t,
        (const float* gradient, float* residual, int64_t count, uint32_t threshold, uint32_t keep_old, uint32_t* indices,
         float* values, int64_t capacity),
        (gradient, residual, count, threshold, keep_old, indices, values, capacity), 12 * count + 8 * std::min(result, capacity))
CHARGED(_ZN4weir7kernels4host6selectIfEElPKT_lNSt11conditionalIXeqstS3_Li4EEjmE4typeEPjPS3_l, int64_t,
        (const float* x, int64_t count, uint32_t threshold, uint32_t* indices, float* values, int64_t capacity),
        (x, count, threshold, indices, values, capacity), 4 * count + 8 * std::min(result, capacity))
// at most one pass for the range, one for the first digit, and one for the elements that share it
CHARGED(_ZN4weir7kernels4host7kth_keyIfEENS_6KthKeyIT_EEPKS4_ll, KthKey<float>, (const float* x, int64_t count, int64_t k),
        (x, count, k), 3 * 4 * count)
CHARGED_VOID(_ZN4weir7kernels4host9histogramIfEEvPKT_lNSt11conditionalIXeqstS3_Li4EEjmE4typeES8_iPmS9_,
             (const float* x, int64_t count, uint32_t low, uint32_t high, int shift, uint64_t* bins, uint64_t* above),
             (x, count, low, high, shift, bins, above), 4 * count)
CHARGED(_ZN4weir7kernels4host13values_withinIfEElPKT_lNSt11conditionalIXeqstS3_Li4EEjmE4typeES8_PS3_, int64_t,
        (const float* x, int64_t count, uint32_t low, uint32_t high, float* out), (x, count, low, high, out), 4 * (count + result))
CHARGED(_ZN4weir7kernels4host7momentsIfEENS_7MomentsIT_EEPKS4_S7_l, Moments<float>, (const float* x, const float* y, int64_t count),
        (x, y, count), (y != nullptr ? 8 : 4) * count)
CHARGED(_ZN4weir7kernels4host11exceedancesIfEENS_11ExceedancesIT_EEPKS4_S7_lNSt11conditionalIXeqstS4_Li4EEjmE4typeE,
        Exceedances<float>, (const float* x, const float* y, int64_t count, uint32_t threshold), (x, y, count, threshold),
        (y != nullptr ? 8 : 4) * count)
CHARGED_VOID(_ZN4weir7kernels4host3addIfEEvPKT_PS3_l, (const float* x, float* y, int64_t count), (x, y, count), 12 * count)
CHARGED_VOID(_ZN4weir7kernels4host5scaleIfEEvPT_lS3_, (float* x, int64_t count, float factor), (x, count, factor), 8 * count)
CHARGED_VOID(_ZN4weir7kernels4host7rescaleIfEEvPT_lS3_, (float* x, int64_t count, float factor), (x, count, factor), 8 * count)
CHARGED_VOID(_ZN4weir7kernels4host6divideIfEEvPT_lS3_, (float* x, int64_t count, float divisor), (x, count, divisor), 8 * count)
CHARGED(_ZN4weir7kernels4host16count_non_finiteIfEElPKT_l, int64_t, (const float* x, int64_t count), (x, count), 4 * count)
CHARGED_VOID(_ZN4weir7kernels4host16reproducible_sumIfEEvPKPKT_illdPS3_,
             (const float* const* terms, int count_of_terms, int64_t begin, int64_t end, double divisor, float* out),
             (terms, count_of_terms, begin, end, divisor, out), 4 * (count_of_terms + 1) * (end - begin))
CHARGED_VOID(_ZN4weir7kernels4host12add_to_totalIfEEvPKT_lRNS_17ReproducibleTotalE,
             (const float* x, int64_t count, ReproducibleTotal& total), (x, count, total), 4 * count)
CHARGED_VOID(_ZN4weir7kernels4host9fill_zeroIfEEvPT_l, (float* x, int64_t count), (x, count), 4 * count)
CHARGED(_ZN4weir7kernels4host9merge_addIfEElPKjPKT_lS4_S7_lPjPS5_, int64_t,
        (const uint32_t* a_indices, const float* a_values, int64_t a_count, const uint32_t* b_indices, const float* b_values,
         int64_t b_count, uint32_t* out_indices, float* out_values),
        (a_indices, a_values, a_count, b_indices, b_values, b_count, out_indices, out_values), 8 * (a_count + b_count + result))
CHARGED_VOID(_ZN4weir7kernels4host6settleIfEEvPT_PKjPKS3_lS6_l,
             (float* dense, const uint32_t* indices, const float* values, int64_t count, const uint32_t* taken,
              int64_t taken_count),
             (dense, indices, values, count, taken, taken_count), (8 + scattered) * count + 4 * taken_count)
CHARGED_VOID(_ZN4weir7kernels4host7scatterIfEEvPT_PKjPKS3_l,
             (float* dense, const uint32_t* indices, const float* values, int64_t count), (dense, indices, values, count),
             (8 + scattered) * count)
CHARGED_VOID(_ZN4weir7kernels4host7densifyIfEEvPT_llPKjPKS3_l,
             (float* dense, int64_t begin, int64_t end, const uint32_t* indices, const float* values, int64_t count),
             (dense, begin, end, indices, values, count), 4 * (end - begin) + 8 * count)
CHARGED_VOID(_ZN4weir7kernels4host11scatter_addIfEEvPT_PKjPKS3_l,
             (float* dense, const uint32_t* indices, const float* values, int64_t count), (dense, indices, values, count),
             (8 + 2 * scattered) * count)
CHARGED_VOID(_ZN4weir7kernels4host6sampleIfEEvPKT_S5_llllPS3_,
             (const float* x, const float* y, int64_t samples, int64_t stride, int64_t rest, int64_t offset, float* out),
             (x, y, samples, stride, rest, offset, out), (4 + (y != nullptr ? 2 : 1) * scattered) * samples)
CHARGED(_ZN4weir7kernels4host9count_cutIfEENS_9CutCountsEPKT_lNSt11conditionalIXeqstS4_Li4EEjmE4typeE, CutCounts,
        (const float* x, int64_t count, uint32_t key), (x, count, key), 4 * count)
CHARGED(_ZN4weir7kernels4host11select_bandIfEElPKjPKT_lRNS_4BandIS5_EEPjPS5_SC_NSt11conditionalIXeqstS5_Li4EEjmE4typeE, int64_t,
        (const uint32_t* indices, const float* values, int64_t count, Band<float>& band, uint32_t* out_indices, float* out_values,
         float* residual, uint32_t keep_old),
        (indices, values, count, band, out_indices, out_values, residual, keep_old), 8 * (count + result))
CHARGED_VOID(_ZN4weir7kernels4host9roll_backIfEEvPKT_PS3_lPKjS5_lNSt11conditionalIXeqstS3_Li4EEjmE4typeE,
             (const float* gradient, float* residual, int64_t count, const uint32_t* held_indices, const float* held_values,
              int64_t held, uint32_t keep_old),
             (gradient, residual, count, held_indices, held_values, held, keep_old), 12 * count + 8 * held)
CHARGED_VOID(_ZN4weir7kernels4host11clear_takenIfEEvPT_PKjlS6_l,
             (float* dense, const uint32_t* indices, int64_t count, const uint32_t* taken, int64_t taken_count),
             (dense, indices, count, taken, taken_count), (4 + scattered) * count + 4 * taken_count)
CHARGED_VOID(_ZN4weir7kernels4host6waxpbyIfEEvT_PKS3_S3_S5_PS3_l,
             (float a, const float* x, float b, const float* y, float* out, int64_t count), (a, x, b, y, out, count),
             (y != nullptr ? 12 : 8) * count)
CHARGED(_ZN4weir7kernels4host12squared_normIfEEdPKT_l, double, (const float* x, int64_t count), (x, count), 4 * count)
CHARGED_VOID(_ZN4weir7kernels4host13momentum_stepIfEEvPKT_PS3_S6_lS3_S3_S3_,
             (const float* gradient, float* weights, float* velocity, int64_t count, float rate, float decay, float momentum),
             (gradient, weights, velocity, count, rate, decay, momentum), 20 * count)
CHARGED(_ZN4weir7kernels4host12adam_momentsIfEENS_12SquaredNormsEPKT_S6_PS4_S7_lRKNS_11AdamFactorsIS4_EE, SquaredNorms,
        (const float* gradient, const float* weights, float* first, float* second, int64_t count,
         const AdamFactors<float>& factors),
        (gradient, weights, first, second, count, factors), 24 * count)
CHARGED_VOID(_ZN4weir7kernels4host9adam_stepIfEEvPKT_S5_PS3_lS3_RKNS_11AdamFactorsIS3_EE,
             (const float* first, const float* second, float* weights, int64_t count, float rate,
              const AdamFactors<float>& factors),
             (first, second, weights, count, rate, factors), 16 * count)
CHARGED_VOID(_ZN4weir7kernels4host11gather_rowsIfEEvPKT_lPKjllPS3_l,
             (const float* x, int64_t x_stride, const uint32_t* rows, int64_t count, int64_t width, float* out, int64_t out_stride),
             (x, x_stride, rows, count, width, out, out_stride), 8 * count * width + 4 * count)
CHARGED_VOID(_ZN4weir7kernels4host13coalesce_rowsIfEEvPKT_lPKjS7_lPS3_,
             (const float* x, int64_t width, const uint32_t* order, const uint32_t* first, int64_t groups, float* out),
             (x, width, order, first, groups, out), (4 * width + 4) * (first[groups] - first[0]) + 4 * width * groups)
CHARGED(_ZN4weir4wire6encodeIfEElNS0_4WireEPKjPKT_ljmPSt4byteRKNS_7ThreadsE, int64_t,
        (Wire wire, const uint32_t* indices, const float* values, int64_t count, uint32_t base, uint64_t range, std::byte* out,
         const Threads& threads),
        (wire, indices, values, count, base, range, out, threads), 8 * count + result)
CHARGED_VOID(_ZN4weir4wire6decodeIfEEvNS0_4WireEPKSt4bytelljmPjPT_RKNS_7ThreadsE,
             (Wire wire, const std::byte* in, int64_t bytes, int64_t count, uint32_t base, uint64_t range, uint32_t* indices,
              float* values, const Threads& threads),
             (wire, in, bytes, count, base, range, indices, values, threads), bytes + 8 * count)

// Sums of doubles. Their lists have 16 bytes an entry.
namespace {

constexpr int64_t entry = 16;

/// Returns the bytes that some doubles of an array take to read, or to write.
int64_t bytes_of_some(int64_t entries, int64_t elements) { return std::min(scattered * entries, 8 * elements); }

/// Charges what the loops of another arithmetic cost.
class ChargedArithmetic final : public sums::Arithmetic<double> {
 public:
  explicit ChargedArithmetic(std::unique_ptr<sums::Arithmetic<double>> real)
      : sums::Arithmetic<double>(real->identity, real->keeps_terms, real->checks), real_(std::move(real)) {}

  void combine(const double* lower, const double* upper, double* out, int64_t count, int64_t first) override {
    charge(24 * count);
    real_->combine(lower, upper, out, count, first);
    overflow = real_->overflow;
  }
  void combine_packed(const uint64_t* bits, const double* packed, bool packed_is_lower,
                      const sums::ArrayPart<double>& part) override {
    const int64_t words = sums::bit_words(part.size), entries = sums::count_bits(bits, words);
    charge(8 * entries + 2 * bytes_of_some(entries, part.size) + 3 * 8 * words);
    real_->combine_packed(bits, packed, packed_is_lower, part);
    overflow = real_->overflow;
  }
  int64_t merge(const sums::Entries<double>& lower, const sums::Entries<double>& upper, int64_t* indices, double* values) override {
    const int64_t read = lower.count + upper.count, merged = real_->merge(lower, upper, indices, values);
    charge(entry * (read + merged));
    overflow = real_->overflow;
    return merged;
  }
  int64_t fold(int64_t* indices, double* values, int64_t count) override {
    const int64_t left = real_->fold(indices, values, count);
    charge(entry * (count + left));
    overflow = real_->overflow;
    return left;
  }
  int64_t total(const sums::Entries<double>& terms, int64_t* indices, double* values) override {
    const int64_t sums = real_->total(terms, indices, values);
    charge(entry * (terms.count + sums));
    return sums;
  }
  void add(const sums::Entries<double>& entries, int64_t base, double* dense) override {
    charge((entry + 2 * scattered) * entries.count);
    real_->add(entries, base, dense);
  }
  void check_add(const sums::Entries<double>& entries, int64_t base, const double* dense) override {
    charge((entry + scattered) * entries.count);
    real_->check_add(entries, base, dense);
    overflow = real_->overflow;
  }

 private:
  std::unique_ptr<sums::Arithmetic<double>> real_;
};

}  // namespace

// CHARGED_SUMS(symbol, type): charges the loops of the arithmetic that the function makes.
#define CHARGED_SUMS(symbol, type)                                                             \
  extern "C" std::unique_ptr<sums::Arithmetic<type>> __real_##symbol(SumOperation operation);  \
  extern "C" std::unique_ptr<sums::Arithmetic<type>> __wrap_##symbol(SumOperation operation) { \
    return std::make_unique<ChargedArithmetic>(__real_##symbol(operation));                    \
  }

CHARGED_SUMS(_ZN4weir4sums15make_arithmeticIdEESt10unique_ptrINS0_10ArithmeticIT_EESt14default_deleteIS5_EENS_12SumOperationE,
             double)
CHARGED_VOID(_ZN4weir4sums4fillIdEEvRKNS0_9ArrayPartIT_EERKNS0_7EntriesIS3_EES3_,
             (const sums::ArrayPart<double>& part, const sums::Entries<double>& entries, double identity),
             (part, entries, identity), 8 * (part.size + sums::bit_words(part.size)) + entry * entries.count)
CHARGED(_ZN4weir4sums10count_bitsEPKml, int64_t, (const uint64_t* bits, int64_t words), (bits, words), 8 * words)
CHARGED_VOID(_ZN4weir4sums8set_bitsIdEEvRKNS0_9ArrayPartIT_EERKNS0_7EntriesIS3_EE,
             (const sums::ArrayPart<double>& part, const sums::Entries<double>& entries), (part, entries),
             8 * (sums::bit_words(part.size) + entries.count))
CHARGED(_ZN4weir4sums4packIdEElRKNS0_9ArrayPartIT_EEPS3_, int64_t, (const sums::ArrayPart<double>& part, double* to), (part, to),
        8 * (sums::bit_words(part.size) + result) + bytes_of_some(result, part.size))
CHARGED(_ZN4weir4sums7extractIdEElRKNS0_9ArrayPartIT_EERKNS0_10EntryPlaceIS3_EE, int64_t,
        (const sums::ArrayPart<double>& part, const sums::EntryPlace<double>& to), (part, to),
        8 * sums::bit_words(part.size) + bytes_of_some(result, part.size) + entry * result)
CHARGED_VOID(_ZN4weir4sums14encode_indicesEPKllllPSt4byteb,
             (const int64_t* indices, int64_t count, int64_t base, int64_t range, std::byte* out, bool repeats),
             (indices, count, base, range, out, repeats), (entry + 8) * count + sums::index_bytes(count, range, repeats))
CHARGED_VOID(_ZN4weir4sums14decode_indicesEPKSt4bytelllPlb,
             (const std::byte* in, int64_t count, int64_t base, int64_t range, int64_t* indices, bool repeats),
             (in, count, base, range, indices, repeats), (entry + 8) * count + sums::index_bytes(count, range, repeats))

}  // namespace weir
