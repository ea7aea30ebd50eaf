// fuzz_config.cpp: libFuzzer target of the C interface's configurations.
#include <cstdlib>

#include "fuzz/config_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (!weir::fuzz::config_contract_holds({data, size})) std::abort();
  return 0;
}
