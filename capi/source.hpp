// source.hpp: what a weir_source is, and sources whose samples functions of C read and decode.
#pragma once

#include <memory>
#include <weir/datacache.hpp>

#include "shim.hpp"

struct weir_source {
  std::shared_ptr<weir::SampleSource> source;
};

struct weir_source_call {
  std::vector<std::byte>* encoded;  ///< nullptr: this call may append nothing
  std::string error{};
};
