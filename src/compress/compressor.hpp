// compressor.hpp: what a compressor is, and the registry of all of them. One file and one row each.
//
// After GRACE (Xu et al., ICDCS 2021): what travels is the compressor's business, how it travels the algorithm's, and what a rank
// remembers of what did not travel the memory's (memory.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>
#include <weir/weir.hpp>

#include "base/parameters.hpp"
#include "codec/packed.hpp"
#include "collectives/compressed_exchange.hpp"

namespace weir::compress {

struct DeviceScheme;

/// What happens to the gradient before it is compressed, besides what memory adds. v is a rank's velocity:
/// v = momentum v + gain g, and v is compressed; where momentum is 0, gain g is.
struct Momentum {
  double momentum = 0, gain = 1;
  bool masked = false;  ///< velocity ends where an entry was delivered (DGC's momentum factor masking)
  double clip = 0;      ///< g is scaled down to a norm of clip / sqrt(P) (DGC); 0: never
};

/// How a rank picks entries.
enum class Picking : std::uint8_t {
  largest,     ///< the k largest magnitudes, by the plan's `threshold`
  random,      ///< k places, whatever is there
  above_value  ///< magnitudes above a fixed value, but no more than the k largest
};

/// How what a compressor makes may travel.
enum class Carriage : std::uint8_t {
  sparse,  ///< entries, by any sparse algorithm
  packed,  ///< bytes that are decoded and summed, by packed_allgather and packed_reduce_scatter
  linear   ///< dense values that may be summed as they are, by any dense algorithm
};
[[nodiscard]] std::string_view name_of(Carriage carriage);

struct CompressorRow {
  std::string_view name, description, source;
  Carriage carriage = Carriage::packed;
  bool random = false;
  bool unbiased = false;  ///< with its default parameters, in expectation what is decoded is what was encoded
  bool feedback = true;   ///< memory is on unless the configuration says otherwise (GRACE table I)
  std::span<const ParameterInfo> parameters{};
  // For cost functions: time to encode and to decode an element, in units of what adding one takes (of sparse compressors: besides
  // selection), as measured by `weir bench compress`; and of messages of variable size, which part of the most they usually have.
  double encode_adds = 1, decode_adds = 1, usual_size = 1;
  bool streams =
      true;  ///< encoding reads, and decoding writes, the whole about once; else they sort, rank or hash, and take longer
  /// For linear compressors: returns how many values are summed.
  std::int64_t (*summed)(const Parameters&, std::int64_t count, std::int64_t k) = nullptr;
  Picking picking = Picking::largest;                    ///< of sparse ones
  double (*picking_value)(const Parameters&) = nullptr;  ///< of above_value
  bool (*scales_up)(const Parameters&) = nullptr;        ///< of random ones: values travel times n / k
  Momentum (*momentum)(const Parameters&) = nullptr;     ///< none: Momentum{}
  std::string_view (*why_not_by)(const Parameters&, const AllreduceRow&) =
      nullptr;  ///< why an algorithm of its kind cannot carry it; none, or an empty answer: it can
  std::string_view (*why_no_feedback)(const Parameters&) = nullptr;    ///< none: it can have one; an empty answer means the same
  void (*check)(const Parameters&) = nullptr;                          ///< throws what ranges alone do not say
  std::unique_ptr<PackedCodec> (*codec)(const Parameters&) = nullptr;  ///< of packed ones, in host memory
  DeviceScheme (*device_scheme)(const Parameters&) = nullptr;          ///< null: CUDA memory goes through the codec of host memory
  std::unique_ptr<CompressedExchange> (*exchange)(const Parameters&, const LinearSpec&) = nullptr;  ///< of linear ones
};

[[nodiscard]] std::span<const CompressorRow* const> compressor_registry();
/// Throws Error(WEIR_ERR_ARGUMENT) listing the known names.
[[nodiscard]] const CompressorRow& find_compressor(std::string_view name);

/// A row and its parameters.
struct Compressor {
  const CompressorRow* row = nullptr;  ///< none: what travels is what the algorithm is made for
  Parameters parameters;

  [[nodiscard]] explicit operator bool() const { return row != nullptr; }
  /// Values travel times n / k.
  [[nodiscard]] bool scales_up() const { return row != nullptr && row->scales_up != nullptr && row->scales_up(parameters); }
};
/// Returns the compressor of a name, or of "none", with its parameters. Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] Compressor make_compressor(std::string_view name, std::string_view parameters);
/// Returns several, as in "qsgd|top_k|none" and "levels=3||": AllreduceConfig's fields with automatic choice. Parameters may name
/// fewer. Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] std::vector<Compressor> make_compressors(std::string_view names, std::string_view parameters);

/// What n elements cost, for the cost functions.
struct Expense {
  double packed_bytes = 0;  ///< of an element, of packed compressors
  double encode_adds = 0, decode_adds = 0;
  std::int64_t summed = 0;  ///< values, of linear ones
};
[[nodiscard]] Expense expense_of(const Compressor& compressor, std::int64_t count, std::int64_t k);

// The rows.
#define WEIR_COMPRESSOR(name) extern const CompressorRow name##_row;
#include "compress/compressors.def"
#undef WEIR_COMPRESSOR

}  // namespace weir::compress
