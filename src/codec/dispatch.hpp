// dispatch.hpp: the functions of parts.hpp for one instruction set, as tables of pointers.
#pragma once

#include "codec/parts.hpp"
#include "codec/wire.hpp"

namespace weir::wire {

template <class T>
struct ValueKernels {
  decltype(&pack_values<T>) pack;
  decltype(&unpack_values<T>) unpack;
  decltype(&round_values<T>) round;
};

struct IndexPackers {
  decltype(&wire::pack_low) pack_low;
  decltype(&wire::pack_bits) pack_bits;
  decltype(&wire::pack_coo) pack_coo;
};

struct IndexUnpackers {
  decltype(&wire::count_bits) count_bits;
  decltype(&wire::unpack_bits) unpack_bits;
  decltype(&wire::unpack_coo) unpack_coo;
  decltype(&wire::strictly_ascending) strictly_ascending;
};

}  // namespace weir::wire
