// error_report.hpp: what is wrong with one rank's call, in one word that travels with the first thing ranks say in a run. Every
// rank takes the largest, so that all report the same error.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>

namespace weir {

/// If several ranks report, the largest kind wins, then the lowest rank. `Kind` is an enumeration of the caller's: 0 means no
/// error, and `last` names the largest.
class ErrorReport {
 public:
  static constexpr int kind_bits = 5, rank_bits = 20, detail_bits = 39;
  static_assert(kind_bits + rank_bits + detail_bits == 64);
  static constexpr std::uint64_t most_detail = (std::uint64_t{1} << detail_bits) - 1;

  /// Makes a report that nothing is wrong.
  constexpr ErrorReport() = default;
  /// `detail` is a number for the error's text. One that does not fit becomes most_detail.
  template <class Kind>
  constexpr ErrorReport(Kind kind, int rank, std::uint64_t detail = 0) {
    static_assert(static_cast<std::uint64_t>(Kind::last) < std::uint64_t{1} << kind_bits, "kind_bits are too few for these kinds");
    if (kind == Kind::none) return;
    word_ = static_cast<std::uint64_t>(kind) << (rank_bits + detail_bits) |
            (largest_rank - (static_cast<std::uint64_t>(rank) & largest_rank)) << detail_bits | std::min(detail, most_detail);
  }
  /// Makes a report from the word that travels.
  [[nodiscard]] static constexpr ErrorReport of_word(std::uint64_t word) {
    ErrorReport report;
    report.word_ = word;
    return report;
  }
  [[nodiscard]] constexpr std::uint64_t word() const { return word_; }

  /// Returns whether anything is wrong.
  explicit constexpr operator bool() const { return word_ != 0; }
  template <class Kind>
  [[nodiscard]] constexpr Kind kind() const {
    return static_cast<Kind>(word_ >> (rank_bits + detail_bits));
  }
  [[nodiscard]] constexpr int rank() const { return static_cast<int>(largest_rank - (word_ >> detail_bits & largest_rank)); }
  [[nodiscard]] constexpr std::uint64_t detail() const { return word_ & most_detail; }
  friend constexpr auto operator<=>(ErrorReport, ErrorReport) = default;

 private:
  static constexpr std::uint64_t largest_rank = (std::uint64_t{1} << rank_bits) - 1;
  std::uint64_t word_ = 0;
};

}  // namespace weir
