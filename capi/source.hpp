// source.hpp: the struct behind a weir_source, and sources whose samples are read and decoded by C functions.
#pragma once

#include <memory>
#include <weir/datacache.hpp>

#include "shim.hpp"

namespace weir::capi {
class SourceOfFunctions;
}

struct weir_source {
  std::shared_ptr<weir::SampleSource> source;
  weir::capi::SourceOfFunctions* functions = nullptr;  ///< the same source, if it has C functions
};

struct weir_source_call {
  std::vector<std::byte>* encoded;  ///< nullptr: the call may not append
  std::string error{};
};
