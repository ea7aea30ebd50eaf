// In a build without catalogue/, its names are unknown, and all others work.
#include <weir/fusion.hpp>

#include "collectives/allreduce.hpp"
#include "compress/compressor.hpp"
#include "contribution/threshold.hpp"
#include "fusion/scheme.hpp"
#include "support/catch.hpp"
#include "support/inproc_ranks.hpp"
#include "support/inputs.hpp"
#include "support/rank_check.hpp"

namespace weir::test {
namespace {

constexpr std::int64_t n = 1000;

template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("names of the catalogue are unknown") {
  REQUIRE(refusal([] {
            (void)make_threshold("sidco");
          }).starts_with("there is no threshold 'sidco': known are exact, reuse (this build is without the catalogue);"));
  REQUIRE(refusal([] { (void)find_allreduce("gaussiank"); }).starts_with("there is no allreduce algorithm 'gaussiank'"));
  REQUIRE(refusal([] { (void)compress::find_compressor("lossless"); }).starts_with("there is no compressor 'lossless'"));
  REQUIRE(refusal([] { (void)fusion::find_scheme(FusionScheme::omgs); }) ==
          "scheme is omgs: this build is without the catalogue, which has it; choose ahead_tapered");
}

TEST_CASE("algorithms, compressors and schemes of the core run") {
  RankCheck check;
  run_ranks(3, [&](Communicator& comm) {
    const auto run = [&](const AllreduceConfig& config) {
      AllreducePlan plan(comm, config);
      auto gradient = make_input<float>(Input::heavy_tailed, n, comm.rank(), comm.size(), 0);
      plan.run(gradient);
      check.that(plan.statistics().iteration == 1, config.algorithm);
    };
    for (const AllreduceRow& row : allreduce_registry()) {
      if (row.host_memory && !row.needs_allreduce) run({.count = n, .algorithm = std::string(row.name)});
    }
    for (const ThresholdRow* row : threshold_registry()) run({.count = n, .threshold = std::string(row->name)});
    for (const compress::CompressorRow* row : compress::compressor_registry()) {
      const std::string algorithm = row->carriage == compress::Carriage::sparse   ? "oktopk"
                                    : row->carriage == compress::Carriage::packed ? "packed_allgather"
                                                                                  : "dense_ring";
      run({.count = n, .algorithm = algorithm, .compressor = std::string(row->name)});
    }
    for (const fusion::SchemeRow* row : fusion::scheme_registry()) {
      FusedAllreduce fused(comm, {.scheme = row->scheme}, std::vector<FusedTensor>{{.name = "only", .count = n}});
      auto gradient = make_input<float>(Input::heavy_tailed, n, comm.rank(), comm.size(), 0);
      fused.ready(0, gradient);
      fused.wait_all();
    }
  });
  REQUIRE(check.failure() == "");
}

}  // namespace weir::test
