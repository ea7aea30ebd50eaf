// stage.hpp: what a run does, as one list of stages. Statistics, dumps of timeouts, traces, the flight recorder and metrics use
// these.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace weir {

enum class Stage : std::uint8_t {
  none,
  // Every plan:
  communicate,
  agree,
  check_finite,
  select,
  in_node_reduce,
  exchange,
  encode,  // of compressors, as decode
  decode,
  in_node_allgather,
  compare_candidates,
  wait_for_caller,
  apply,
  // Sparse algorithms:
  average_boundaries,
  announce,
  recut,
  split_reduce,
  global_threshold,
  global_sizes,
  balance,
  allgatherv,
  sum,
  reduce_tree,
  broadcast_tree,
  // Dense algorithms:
  reduce_scatter,
  allgather,
  allreduce,
  fold,
  unfold,
  nccl,
  nccl_turn,
  nccl_connect,
  // All-to-all exchanges:
  alltoallv,
  alltoallv_sizes,
  alltoallv_gather,
  alltoallv_scatter,
  alltoallv_rest,
  // Embedding tables:
  wait_for_ids,
  wait_for_prefetch,
  wait_for_rows,
  gather_ids,
  gather_rows,
  exchange_vectors,
  prior_rows,
  delayed_rows,
  export_rows,
  import_rows,
  // Sample caches:
  request_samples,
  load_samples,
  exchange_samples,
  // Checkpoints:
  agree_on_file,
  prepare_file,
  write_file,
  publish_file,
  restore_file,
  // Communicators:
  gather_answers,
  measure
};

struct StageInfo {
  Stage stage;
  std::string_view name;
  std::string_view description;
};

inline constexpr std::array stage_list = {
    StageInfo{Stage::none, "none", "between two stages"},
    StageInfo{Stage::communicate, "communicate", "the whole run except `wait_for_caller` and `apply`"},
    StageInfo{Stage::agree, "agree", "ranks exchange input errors"},
    StageInfo{Stage::check_finite, "check_finite", "search for NaN and infinity"},
    StageInfo{Stage::select, "select", "compensation and local selection"},
    StageInfo{Stage::in_node_reduce, "in_node_reduce", "dense reduce-scatter in the node"},
    StageInfo{Stage::exchange, "exchange", "the algorithm, from its first message to its last"},
    StageInfo{Stage::encode, "encode", "a compressor encodes the gradient"},
    StageInfo{Stage::decode, "decode", "received bytes are decoded and summed"},
    StageInfo{Stage::in_node_allgather, "in_node_allgather", "sparse allgather in the node"},
    StageInfo{Stage::compare_candidates, "compare_candidates", "ranks compare the times of automatic choice"},
    StageInfo{Stage::wait_for_caller, "wait_for_caller", "waiting until the caller's array may be written"},
    StageInfo{Stage::apply, "apply", "updating the residual and the dense result"},
    StageInfo{Stage::average_boundaries, "average_boundaries", "Ok-Topk: ranks average their region boundaries"},
    StageInfo{Stage::announce, "announce", "input errors and sizes"},
    StageInfo{Stage::recut, "recut", "Ok-Topk: regions are cut anew"},
    StageInfo{Stage::split_reduce, "split_reduce", "each rank receives its region and sums it"},
    StageInfo{Stage::global_threshold, "global_threshold", "the k-th largest magnitude of the sum"},
    StageInfo{Stage::global_sizes, "global_sizes", "entries of each region above the threshold"},
    StageInfo{Stage::balance, "balance", "Ok-Topk: parts are made equal before the allgatherv"},
    StageInfo{Stage::allgatherv, "allgatherv", "all ranks gather all parts of the update"},
    StageInfo{Stage::sum, "sum", "gathered entries are summed"},
    StageInfo{Stage::reduce_tree, "reduce_tree", "gTop-k: pairs of ranks merge and cut"},
    StageInfo{Stage::broadcast_tree, "broadcast_tree", "gTop-k: the result is broadcast"},
    StageInfo{Stage::reduce_scatter, "reduce_scatter", "reduce-scatter, dense or of compressed parts"},
    StageInfo{Stage::allgather, "allgather", "allgather, dense or of compressed parts"},
    StageInfo{Stage::allreduce, "allreduce", "dense allreduce of a library, or across nodes"},
    StageInfo{Stage::fold, "fold", "Rabenseifner: ranks beyond a power of two send their data"},
    StageInfo{Stage::unfold, "unfold", "Rabenseifner: ranks beyond a power of two receive the result"},
    StageInfo{Stage::nccl, "nccl", "NCCL's part of a run, from the wait for its turn on"},
    StageInfo{Stage::nccl_turn, "nccl_turn", "waiting for this run's turn with NCCL"},
    StageInfo{Stage::nccl_connect, "nccl_connect", "GPUs connect by NCCL"},
    StageInfo{Stage::alltoallv, "alltoallv", "all-to-all exchange, direct"},
    StageInfo{Stage::alltoallv_sizes, "alltoallv_sizes", "all-to-all by nodes: sizes"},
    StageInfo{Stage::alltoallv_gather, "alltoallv_gather", "all-to-all by nodes: blocks are sent to the node's gateways"},
    StageInfo{Stage::alltoallv_scatter, "alltoallv_scatter", "all-to-all by nodes: blocks are received from the gateways"},
    StageInfo{Stage::alltoallv_rest, "alltoallv_rest", "all-to-all by nodes: the last blocks"},
    StageInfo{Stage::wait_for_ids, "wait_for_ids", "waiting for ids from the GPU"},
    StageInfo{Stage::wait_for_prefetch, "wait_for_prefetch", "waiting for the prefetch"},
    StageInfo{Stage::wait_for_rows, "wait_for_rows", "waiting until the previous update has been applied"},
    StageInfo{Stage::gather_ids, "gather_ids", "all ranks gather all ids"},
    StageInfo{Stage::gather_rows, "gather_rows", "gradients of rows are sent to the ranks that hold the rows"},
    StageInfo{Stage::exchange_vectors, "exchange_vectors", "rows are sent to the ranks that look them up"},
    StageInfo{Stage::prior_rows, "prior_rows", "rows that the next batch needs"},
    StageInfo{Stage::delayed_rows, "delayed_rows", "all other rows"},
    StageInfo{Stage::export_rows, "export_rows", "rows are copied to the caller"},
    StageInfo{Stage::import_rows, "import_rows", "rows are copied from the caller"},
    StageInfo{Stage::request_samples, "request_samples", "requests for samples are sent to their owners"},
    StageInfo{Stage::load_samples, "load_samples", "samples that are not in memory are read and decoded"},
    StageInfo{Stage::exchange_samples, "exchange_samples", "samples are sent to the ranks that asked for them"},
    StageInfo{Stage::agree_on_file, "agree_on_file", "rank 0 gathers what ranks save, and scatters where it goes"},
    StageInfo{Stage::prepare_file, "prepare_file", "checksums and compression"},
    StageInfo{Stage::write_file, "write_file", "all ranks write their parts"},
    StageInfo{Stage::publish_file, "publish_file", "rank 0 gives the file its name"},
    StageInfo{Stage::restore_file, "restore_file", "ranks read a checkpoint"},
    StageInfo{Stage::gather_answers, "gather_answers", "every rank's answer is awaited"},
    StageInfo{Stage::measure, "measure", "the machine is measured"},
};
inline constexpr std::size_t stage_count = stage_list.size();

/// The stages that statistics have the times of are the first. Those of others are only reported to observers.
inline constexpr std::size_t statistic_count = static_cast<std::size_t>(Stage::apply) + 1;
[[nodiscard]] constexpr bool is_statistic(Stage stage) { return static_cast<std::size_t>(stage) < statistic_count; }

static_assert([] {
  for (std::size_t i = 0; i < stage_count; ++i) {
    if (stage_list[i].stage != static_cast<Stage>(i)) return false;
  }
  return true;
}());

[[nodiscard]] constexpr std::string_view stage_name(Stage stage) { return stage_list[static_cast<std::size_t>(stage)].name; }

}  // namespace weir
