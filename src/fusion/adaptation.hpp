// adaptation.hpp: adapts buffers to measured times, for schemes that do. Every rank learns the same agreed figures and decides the
// same. Sends no messages.
//
// A round of a few iterations measures one division. The next division is made from all measurements so far. This ends when the
// next division has been measured before, or after the last round. Then the first division is measured again, and the fastest
// stays.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fusion/division.hpp"
#include "fusion/scheme.hpp"

namespace weir::fusion {

class Adaptation {
 public:
  /// `line` is in the expected order. `prior` is the cost of an exchange by the cost functions. `entry_bytes` is the size of a full
  /// buffer as it travels. Schemes that do not measure are settled from the start.
  Adaptation(const SchemeRow& scheme, Line line, const LinearCost& prior, std::int64_t entry_bytes);

  /// Returns true if the scheme divides by measured times.
  [[nodiscard]] bool measures() const { return scheme_.refit != nullptr; }
  [[nodiscard]] bool settled() const { return settled_; }
  [[nodiscard]] std::int64_t regroupings() const { return regroupings_; }
  /// Returns a line of text that says what was measured.
  [[nodiscard]] std::string text() const;
  /// Keeps the present division, since another one could not be made.
  void give_up() { settled_ = true; }

  /// Returns the number of words that ranks agree on after an iteration: one for the whole, one per tensor, one per buffer. All are
  /// maxima.
  [[nodiscard]] std::size_t words(std::size_t buffers) const { return settled_ ? 0 : 1 + line_.size() + buffers; }
  /// Writes this rank's words: the seconds from the first gradient to the end of the last exchange; to the sparsification of tensor
  /// i of the line; and those that each buffer's exchange took.
  void write(double total, std::span<const double> ready, std::span<const double> exchanges, std::uint64_t* words) const;
  /// Takes the agreed words of an iteration with this division. Returns the next division, if there is to be another one.
  [[nodiscard]] std::optional<Division> learn(const std::uint64_t* words, const Division& division);
  [[nodiscard]] const Line& line() const { return line_; }

 private:
  static constexpr int warm_iterations = 1, measured_iterations = 5;
  static constexpr std::size_t most_rounds = 4;

  [[nodiscard]] Division end_round(const Division& division);
  [[nodiscard]] Division best() const;
  [[nodiscard]] std::int64_t bytes_of(const std::vector<int>& buffer) const;

  const SchemeRow& scheme_;
  Line line_;
  LinearCost prior_, cost_;
  std::int64_t entry_bytes_;
  std::vector<std::int64_t> bytes_;  // per tensor
  bool settled_;
  std::int64_t regroupings_ = 0;
  int iteration_ = 0;              // in the round
  bool confirms_ = false;          // this round measures the first division again
  double total_ = 0;               // average of the round
  std::vector<double> exchanges_;  // averages of the round
  std::vector<Sample> samples_;
  struct Tried {
    Division division;
    double total;
  };
  std::vector<Tried> tried_;
};

}  // namespace weir::fusion
