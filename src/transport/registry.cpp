#include "transport/registry.hpp"

namespace weir {
namespace {

constexpr const TransportRow* rows[] = {
#define WEIR_TRANSPORT(name) &transport_##name,
#include "transport/transports.def"
#undef WEIR_TRANSPORT
};

}  // namespace

std::span<const TransportRow* const> transport_registry() { return rows; }

}  // namespace weir
