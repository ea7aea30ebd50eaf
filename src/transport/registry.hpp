// registry.hpp: the table of transports. Each is made differently (from an MPI communicator, for virtual ranks), beside its class.
#pragma once

#include <span>
#include <string_view>

namespace weir {

struct TransportRow {
  std::string_view name, description;
  // The capabilities that it has, if the machine and its library do:
  bool shared_segments = false, native_allreduce = false, gpu_memory = false;
};

// The rows.
#define WEIR_TRANSPORT(name) extern const TransportRow transport_##name;
#include "transport/transports.def"
#undef WEIR_TRANSPORT

[[nodiscard]] std::span<const TransportRow* const> transport_registry();

}  // namespace weir
