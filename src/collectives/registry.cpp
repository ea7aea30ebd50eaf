#include <array>

#include "base/error.hpp"
#include "collectives/allreduce.hpp"

namespace weir {
namespace {

constexpr std::array rows = {
    AllreduceRow{.name = "dense_ring",
                 .description = "reduce-scatter and allgather around a ring",
                 .dense_float32 = make_dense_ring<float>,
                 .dense_float64 = make_dense_ring<double>},
    AllreduceRow{.name = "dense_rabenseifner",
                 .description = "recursive halving and doubling (Rabenseifner), any number of ranks",
                 .dense_float32 = make_dense_rabenseifner<float>,
                 .dense_float64 = make_dense_rabenseifner<double>},
    AllreduceRow{.name = "oktopk",
                 .description = "Ok-Topk: O(k) sparse allreduce, at most 6k words a rank",
                 .sparse_float32 = make_oktopk<float>,
                 .sparse_float64 = make_oktopk<double>},
};

}  // namespace

std::span<const AllreduceRow> allreduce_registry() { return rows; }

const AllreduceRow& find_allreduce(std::string_view name) {
  std::string known;
  for (const AllreduceRow& row : rows) {
    if (row.name == name) return row;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  fail(WEIR_ERR_ARGUMENT, "there is no allreduce algorithm '{}': known are {}", name, known);
}

std::vector<AlgorithmInfo> algorithms() {
  std::vector<AlgorithmInfo> list;
  for (const AllreduceRow& row : rows) list.push_back({row.name, row.description, row.sparse()});
  return list;
}

}  // namespace weir
