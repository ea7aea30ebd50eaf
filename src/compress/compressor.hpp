// compressor.hpp: the interface of a compressor, and the registry of all compressors, with one file and one row each.
//
// The division of work is that of GRACE (Xu et al., ICDCS 2021): the compressor decides what travels, the algorithm how it travels,
// and error feedback what a rank remembers of the rest (contribution/error_feedback.hpp).
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

/// What is applied to the gradient before it is compressed, besides error feedback. v is a rank's velocity: v = momentum v + gain
/// g, and v is compressed. If momentum is 0, gain g is compressed.
struct Momentum {
  double momentum = 0, gain = 1;
  bool masked = false;  ///< clears the velocity of delivered entries (DGC's momentum factor masking)
  double clip = 0;      ///< scales g down to a norm of clip / sqrt(P) (DGC); 0: never
};

/// How a rank picks entries.
enum class Picking : std::uint8_t {
  largest,     ///< the k largest magnitudes, by the plan's `threshold`
  random,      ///< k places, regardless of the values
  above_value  ///< magnitudes above a fixed value, but no more than the k largest
};

/// The ways in which a compressor's output may travel.
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
  bool unbiased = false;  ///< with its default parameters, the expected value of the decoded vector is the original
  bool feedback = true;   ///< error feedback is on unless the configuration says otherwise (GRACE table I)
  std::span<const ParameterInfo> parameters{};
  // For cost functions: the time to encode and to decode an element, in units of the time to add one (for sparse compressors: in
  // addition to selection), as measured by `weir bench compress`; and for messages of variable size, the usual fraction of the
  // largest size.
  double encode_adds = 1, decode_adds = 1, usual_size = 1;
  bool streams = true;  ///< encoding reads and decoding writes everything about once; others sort, rank or hash, and take longer
  /// Returns how many values are summed, for linear compressors.
  std::int64_t (*summed)(const Parameters&, std::int64_t count, std::int64_t k) = nullptr;
  Picking picking = Picking::largest;                    ///< for sparse compressors
  double (*picking_value)(const Parameters&) = nullptr;  ///< for above_value
  bool (*scales_up)(const Parameters&) = nullptr;        ///< for random picking: values travel times n / k
  Momentum (*momentum)(const Parameters&) = nullptr;     ///< nullptr: Momentum{}
  /// Says why an algorithm of its kind cannot carry it. nullptr or an empty answer: it can.
  std::string_view (*why_not_by)(const Parameters&, const AllreduceRow&) = nullptr;
  /// Says why it cannot have error feedback. nullptr or an empty answer: it can.
  std::string_view (*why_no_feedback)(const Parameters&) = nullptr;
  void (*check)(const Parameters&) = nullptr;  ///< throws if parameters within their ranges are wrong together
  std::unique_ptr<PackedCodec> (*codec)(const Parameters&) = nullptr;  ///< for packed compressors, in host memory
  DeviceScheme (*device_scheme)(const Parameters&) = nullptr;  ///< nullptr: CUDA memory goes through the codec of host memory
  std::unique_ptr<CompressedExchange> (*exchange)(const Parameters&, const LinearSpec&) = nullptr;  ///< for linear compressors
};

[[nodiscard]] std::span<const CompressorRow* const> compressor_registry();
/// Throws Error(WEIR_ERR_ARGUMENT) listing the known names.
[[nodiscard]] const CompressorRow& find_compressor(std::string_view name);

/// A row and its parameters.
struct Compressor {
  const CompressorRow* row = nullptr;  ///< nullptr: the algorithm's own kind of entries or values travels
  Parameters parameters;

  [[nodiscard]] explicit operator bool() const { return row != nullptr; }
  /// Returns true if values travel times n / k.
  [[nodiscard]] bool scales_up() const { return row != nullptr && row->scales_up != nullptr && row->scales_up(parameters); }
};
/// Returns the named compressor with its parameters; the name may be "none". Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] Compressor make_compressor(std::string_view name, std::string_view parameters);
/// Returns several compressors, as in "qsgd|top_k|none" and "levels=3||": AllreduceConfig's fields with automatic choice. There may
/// be fewer lists of parameters than names. Throws Error(WEIR_ERR_ARGUMENT).
[[nodiscard]] std::vector<Compressor> make_compressors(std::string_view names, std::string_view parameters);

/// The cost of n elements, for the cost functions.
struct Expense {
  double packed_bytes = 0;  ///< per element, for packed compressors
  double encode_adds = 0, decode_adds = 0;
  std::int64_t summed = 0;  ///< number of values, for linear compressors
};
[[nodiscard]] Expense expense_of(const Compressor& compressor, std::int64_t count, std::int64_t k);

// The rows.
#define WEIR_COMPRESSOR(name) extern const CompressorRow name##_row;
#include "compress/compressors.def"
#undef WEIR_COMPRESSOR

}  // namespace weir::compress
