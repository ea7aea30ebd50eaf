#include <weir/weir.h>

#include <weir/weir.hpp>

namespace weir {

Version version() noexcept { return {WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH}; }

}  // namespace weir
