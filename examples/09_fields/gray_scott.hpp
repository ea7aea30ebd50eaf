// gray_scott.hpp: two substances that react and diffuse (Pearson, Science 1993). From a few squares of the second one, patterns
// grow over the whole plane.
#pragma once

#include <cstdint>
#include <vector>

namespace fields {

/// A periodic plane of edge x edge cells.
class GrayScott {
 public:
  /// Members of an ensemble differ in where they begin, and a little in how fast they react.
  GrayScott(int edge, int member);

  void step();

  [[nodiscard]] const std::vector<float>& u() const { return u_; }
  [[nodiscard]] const std::vector<float>& v() const { return v_; }

 private:
  std::int64_t edge_;
  float feed_, kill_;
  std::vector<float> u_, v_, next_u_, next_v_;  // concentrations, row by row
};

}  // namespace fields
