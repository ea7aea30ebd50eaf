// sum_of_few.hpp: reproducible sums of a few values, which need no ReproducibleTotal.
#pragma once

namespace weir::kernels {

/// Returns the value of the ReproducibleTotal of these values, bit for bit, in a fraction of the time if there are few. `count` is
/// not negative.
[[nodiscard]] double sum_of_few(const double* values, int count);

}  // namespace weir::kernels
