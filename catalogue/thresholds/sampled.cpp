#include "contribution/threshold.hpp"

namespace weir {

const ThresholdRow threshold_sampled{.name = "sampled",
                                     .description =
                                         "the threshold of a small sample, and a second, exact selection among too many "
                                         "candidates",
                                     .source = "DGC (Lin et al. 2018) section 5",
                                     .sampled = true};

}  // namespace weir
