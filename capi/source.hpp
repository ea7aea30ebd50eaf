// source.hpp: what a weir_source is, and sources whose samples functions of C read and decode.
#pragma once

#include <memory>
#include <weir/datacache.hpp>

#include "shim.hpp"

namespace weir::capi {
class SourceOfFunctions;
}

struct weir_source {
  std::shared_ptr<weir::SampleSource> source;
  weir::capi::SourceOfFunctions* functions = nullptr;  ///< the same, where it is one
};

struct weir_source_call {
  std::vector<std::byte>* encoded;  ///< nullptr: this call may append nothing
  std::string error{};
};
