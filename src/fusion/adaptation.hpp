// adaptation.hpp: buffers that follow measured times, for schemes that adapt. Every rank learns the same agreed figures and decides
// alike; no communication of its own.
//
// Rounds of a few iterations each measure one division. After each, the next is made of what was measured so far, until that is one
// that was measured before, or the rounds are over; then the first is measured again, and the fastest stays.
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
  /// `line` is in the expected order, `prior` what the cost functions say of an exchange, `entry_bytes` the size of a full buffer
  /// as it travels. Schemes that do not measure have settled at once.
  Adaptation(const SchemeRow& scheme, Line line, const LinearCost& prior, std::int64_t entry_bytes);

  /// Whether the scheme divides by measured times.
  [[nodiscard]] bool measures() const { return scheme_.refit != nullptr; }
  [[nodiscard]] bool settled() const { return settled_; }
  [[nodiscard]] std::int64_t regroupings() const { return regroupings_; }
  /// Returns a line of text that says what was measured.
  [[nodiscard]] std::string text() const;
  /// Another division could not be made: the present one stays.
  void give_up() { settled_ = true; }

  /// What ranks agree on after an iteration: maxima of all words. One for the whole, one for each tensor, one for each buffer.
  [[nodiscard]] std::size_t words(std::size_t buffers) const { return settled_ ? 0 : 1 + line_.size() + buffers; }
  /// This rank's: seconds from the first gradient to the end of the last exchange; until tensor i of the line was sparsified; that
  /// the exchange of each buffer took.
  void write(double total, std::span<const double> ready, std::span<const double> exchanges, std::uint64_t* words) const;
  /// The agreed ones, of an iteration with this division. Another one to go on with, if any.
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
  std::vector<std::int64_t> bytes_;  // by tensor
  bool settled_;
  std::int64_t regroupings_ = 0;
  int iteration_ = 0;              // of the round
  bool confirms_ = false;          // this round measures the first division again
  double total_ = 0;               // of the round, on average
  std::vector<double> exchanges_;  // of the round, on average
  std::vector<Sample> samples_;
  struct Tried {
    Division division;
    double total;
  };
  std::vector<Tried> tried_;
};

}  // namespace weir::fusion
