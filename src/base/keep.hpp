// keep.hpp: keeps memory that only the network may still use.
#pragma once

#include <memory>

namespace weir {

/// Keeps `owner` until the process ends: what a run that broke off has posted may still be read and written.
void keep_forever(std::shared_ptr<void> owner) noexcept;

}  // namespace weir
