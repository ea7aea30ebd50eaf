#include <vector>

#include "support/catch.hpp"
#include "transport/device_path.hpp"

namespace weir::test {

TEST_CASE("messages of CUDA memory go out directly where the library says so or the setting forces it") {
  const auto choose = [](CudaSupport support, GpuPointers setting) { return choose_device_path("Some MPI 4", support, setting); };
  for (const CudaSupport support : {CudaSupport::unknown, CudaSupport::no, CudaSupport::yes}) {
    const DevicePath found = choose(support, GpuPointers::automatic);
    CHECK(found.direct == (support == CudaSupport::yes));
    CHECK_THAT(found.why, ContainsSubstring(found.direct ? "direct: Some MPI 4" : "staged through pinned memory: Some MPI 4"));
    CHECK(choose(support, GpuPointers::on).direct);
    CHECK_FALSE(choose(support, GpuPointers::off).direct);
    CHECK_THAT(choose(support, GpuPointers::on).why, ContainsSubstring("WEIR_CUDA_AWARE_MPI is on"));
    CHECK_THAT(choose(support, GpuPointers::off).why, ContainsSubstring("WEIR_CUDA_AWARE_MPI is off"));
  }
  CHECK_THAT(choose(CudaSupport::unknown, GpuPointers::automatic).why, ContainsSubstring("set WEIR_CUDA_AWARE_MPI=on"));
}

TEST_CASE("one rank that must stage makes all of them stage") {
  const DevicePath direct{true, "direct: a"}, staged{false, "staged: b"}, other{false, "staged: c"};
  using Paths = std::vector<DevicePath>;
  const auto agreed = [](const Paths& paths) { return agreed_device_path(paths); };
  CHECK(agreed({direct}).direct);
  CHECK(agreed({direct, direct, direct}).why == "direct: a");
  CHECK_FALSE(agreed({staged}).direct);
  CHECK(agreed({staged, staged}).why == "staged: b");
  CHECK_FALSE(agreed({direct, staged, other}).direct);
  CHECK(agreed({direct, staged, other}).why == "staged: b (on rank 1)");
}

}  // namespace weir::test
