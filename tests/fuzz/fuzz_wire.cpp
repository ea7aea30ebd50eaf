// fuzz_wire.cpp: libFuzzer target of the codec.
#include <cstdlib>

#include "fuzz/wire_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!weir::fuzz::wire_contract_holds({data, size})) std::abort();
  return 0;
}
