// test_device_table_state.cpp: tables in CUDA memory continue from saved states.
#include "support/catch.hpp"
#include "support/gpu_table.hpp"
#include "support/table_states.hpp"

namespace weir::test {
namespace {

struct SavedGpuTable : GpuTable {
  using GpuTable::GpuTable;
  std::vector<float> lookup(const std::vector<std::int64_t>& ids) { return GpuTable::lookup(ids, IdsIn::host); }
  Operation prefetch(const std::vector<std::int64_t>& ids) { return GpuTable::prefetch(ids, IdsIn::host); }
};

}  // namespace

TEST_CASE("every exchange and optimizer in CUDA memory goes on from a saved state", "[device_table]") {
  for_each_gpu_exchange([](std::string_view exchange) { CHECK(tables_going_on<SavedGpuTable>(exchange) == ""); });
}

}  // namespace weir::test
