// fuzz_encoded.cpp: libFuzzer target of encoded gradients.
#include <cstdlib>

#include "fuzz/encoded_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!weir::fuzz::encoded_contract_holds({data, size})) std::abort();
  return 0;
}
