// keep.hpp: memory that the network may still use when nobody else does.
#pragma once

#include <memory>

namespace weir {

/// Until the process ends. What a run that broke off has posted may still be read and written.
void keep_forever(std::shared_ptr<void> owner) noexcept;

}  // namespace weir
