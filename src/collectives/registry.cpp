#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"
#include "base/nearest.hpp"
#include "collectives/allreduce.hpp"
#include "collectives/oktopk_parameters.hpp"
#include "collectives/oktopk_schedules.hpp"

namespace weir {
namespace {

// Rows of one factory pair, so that each algorithm is named once.
#define WEIR_DENSE(make) .dense_float32 = make<float>, .dense_float64 = make<double>
#define WEIR_SPARSE_HOST(make) .sparse_float32 = make<float>, .sparse_float64 = make<double>
#define WEIR_SPARSE(make) .cuda_memory = true, WEIR_SPARSE_HOST(make)
#define WEIR_SPARSE_CUDA(name) .cuda_memory = true, .exchange = SparseExchange::name, WEIR_SPARSE_HOST(make_##name)

constexpr std::array rotating = {window_parameter};

constexpr std::array rows = {
    AllreduceRow{.name = "dense_ring",
                 .description = "reduce-scatter and allgather around a ring",
                 .cost = cost_dense_ring,
                 WEIR_DENSE(make_dense_ring)},
    AllreduceRow{.name = "dense_rabenseifner",
                 .description = "recursive halving and doubling (Rabenseifner), any number of ranks",
                 .cost = cost_dense_rabenseifner,
                 WEIR_DENSE(make_dense_rabenseifner)},
    AllreduceRow{.name = "dense_torus2d",
                 .description = "2D torus: reduce-scatter in the node, ring across nodes, allgather in the node",
                 .cost = cost_dense_torus2d,
                 .sums_in_nodes = true,
                 .cuda_memory = true,
                 WEIR_DENSE(make_dense_torus2d)},
    AllreduceRow{.name = "dense_mpi",
                 .description = "the MPI library's own nonblocking allreduce",
                 .cost = cost_dense_mpi,
                 .needs_allreduce = true,
                 WEIR_DENSE(make_dense_mpi)},
    AllreduceRow{.name = "dense_nccl",
                 .description = "NCCL's own allreduce, in CUDA memory only",
                 .cost = cost_dense_nccl,
                 .host_memory = false,
                 .cuda_memory = true},
    AllreduceRow{.name = "topk_allgather",
                 .description = "TopkA: every rank gathers every rank's top-k and sums",
                 .cost = cost_topk_allgather,
                 .delivers_all = true,
                 WEIR_SPARSE_CUDA(topk_allgather)},
    AllreduceRow{.name = "topk_dsa",
                 .description = "SparCML's dynamic sparse allreduce: split, reduce, allgather; dense where sparsity stops paying",
                 .cost = cost_topk_dsa,
                 .parameters = rotating,
                 .delivers_all = true,
                 WEIR_SPARSE_CUDA(topk_dsa)},
    AllreduceRow{.name = "gtopk",
                 .description = "gTopk: reduction tree with top-k at each level, broadcast tree",
                 .cost = cost_gtopk,
                 WEIR_SPARSE(make_gtopk)},
    AllreduceRow{.name = "gaussiank",
                 .description = "topk_allgather with thresholds from a Gaussian estimate",
                 .cost = cost_gaussiank,
                 .delivers_all = true,
                 .threshold = Threshold::gaussian,
                 WEIR_SPARSE_CUDA(topk_allgather)},
    AllreduceRow{.name = "hitopk",
                 .description = "HiTopKComm: reduce-scatter in the node, topk_allgather of each shard across nodes",
                 .cost = cost_hitopk,
                 .sharded = true,
                 .delivers_all = true,
                 WEIR_SPARSE_CUDA(topk_allgather)},
    AllreduceRow{.name = "oktopk",
                 .description = "Ok-Topk: O(k) sparse allreduce; directly, a rank sends at most 3 k entries",
                 .cost = cost_oktopk,
                 .parameters = oktopk_parameters,
                 .check = check_oktopk,
                 .asks_costs = asks_costs_of_schedules,
                 WEIR_SPARSE_CUDA(oktopk)},
    AllreduceRow{
        .name = "hi_oktopk",
        .description = "Ok-Topk along the machine: reduce-scatter in the node, oktopk of each shard across nodes, by switch group",
        .cost = cost_hi_oktopk,
        .parameters = oktopk_parameters,
        .check = check_oktopk,
        .asks_costs = asks_costs_of_schedules,
        .sharded = true,
        .by_switch = true,
        .cuda_memory = true,
        .exchange = SparseExchange::oktopk,
        WEIR_SPARSE_HOST(make_hi_oktopk)},
    AllreduceRow{.name = "packed_allgather",
                 .description = "every rank gathers what a compressor makes of every rank's gradient, and sums",
                 .cost = cost_packed_allgather,
                 .delivers_all = true,
                 .cuda_memory = true,
                 .make_packed = make_packed_allgather},
    AllreduceRow{.name = "packed_reduce_scatter",
                 .description = "sums in the node, compressed parts to their owners across nodes, sums compressed again to all",
                 .cost = cost_packed_reduce_scatter,
                 .parameters = rotating,
                 .sharded = true,
                 .delivers_all = true,
                 .cuda_memory = true,
                 .make_packed = make_packed_reduce_scatter},
};

#undef WEIR_DENSE
#undef WEIR_SPARSE_HOST
#undef WEIR_SPARSE
#undef WEIR_SPARSE_CUDA

}  // namespace

std::span<const AllreduceRow> allreduce_registry() { return rows; }

const AllreduceRow& find_allreduce(std::string_view name) {
  for (const AllreduceRow& row : rows) {
    if (row.name == name) return row;
  }
  std::string known;
  std::vector<std::string_view> names = {"auto", "auto_sparse"};
  for (const AllreduceRow& row : rows) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
    names.push_back(row.name);
  }
  fail(WEIR_ERR_ARGUMENT, "there is no allreduce algorithm '{}': known are {}, auto, auto_sparse; did you mean '{}'?", name, known,
       nearest(name, names));
}

Parameters parameters_of(const AllreduceRow& row, std::string_view text) {
  return Parameters({"algorithm_parameters", row.name}, row.parameters, text);
}

bool is_automatic(std::string_view algorithm) { return algorithm == "auto" || algorithm == "auto_sparse"; }

namespace {

/// The parameters of all rows. Those of one name are the same in all.
Parameters parameters_of_any(std::string_view text) {
  static const std::vector<ParameterInfo> known = [] {
    std::vector<ParameterInfo> all;
    for (const AllreduceRow& row : rows) {
      for (const ParameterInfo& info : row.parameters) {
        if (std::none_of(all.begin(), all.end(), [&](const ParameterInfo& other) { return other.name == info.name; }))
          all.push_back(info);
      }
    }
    return all;
  }();
  return Parameters({"algorithm_parameters", "auto"}, known, text);
}

}  // namespace

Parameters parameters_if_chosen(const AllreduceRow& row, std::string_view text) {
  return parameters_of_any(text).only(row.parameters);
}

std::string algorithm_text(std::string_view algorithm, std::string_view parameters) {
  const Parameters given =
      is_automatic(algorithm) ? parameters_of_any(parameters) : parameters_of(find_allreduce(algorithm), parameters);
  const std::string changes = given.changes();
  return fmt::format("{}{}{}", algorithm, changes.empty() ? "" : " ", changes);
}

std::vector<AlgorithmInfo> algorithms() {
  static const std::vector<std::string> parameters = [] {  // views of these are given away
    std::vector<std::string> texts;
    for (const AllreduceRow& row : rows) texts.push_back(parameters_of(row, "").text());
    return texts;
  }();
  std::vector<AlgorithmInfo> list;
  for (const AllreduceRow& row : rows)
    list.push_back(
        {row.name, row.description, row.sparse(), row.host_memory, row.cuda_memory, row.packed(), parameters[list.size()]});
  return list;
}

}  // namespace weir
