// The C ABI of communicators: thin shims over weir/weir.hpp.
#include "convert.hpp"
#include "shim.hpp"

using namespace weir::capi;

extern "C" {

weir_status weir_comm_rank(const weir_comm* comm, int* rank) {
  return guard_handle(comm, [&] {
    need(rank != nullptr, "the address for the rank is NULL");
    *rank = comm->communicator.rank();
  });
}

weir_status weir_comm_size(const weir_comm* comm, int* size) {
  return guard_handle(comm, [&] {
    need(size != nullptr, "the address for the size is NULL");
    *size = comm->communicator.size();
  });
}

const char* weir_comm_topology(const weir_comm* comm) {
  return comm != nullptr && is_alive(comm, HandleKind::communicator) ? comm->topology.c_str() : nullptr;
}

weir_status weir_comm_level(const weir_comm* comm, int peer, std::int32_t* level) {
  return guard_handle(comm, [&] {
    need(level != nullptr, "the address for the level is NULL");
    *level = static_cast<std::int32_t>(comm->communicator.level(peer));
  });
}

weir_status weir_comm_group(const weir_comm* comm, std::int32_t level, int* ranks, int size, int* count) {
  return guard_handle(comm, [&] {
    need(count != nullptr, "the address for the number of ranks is NULL");
    const std::vector<int> group = comm->communicator.group(static_cast<weir::Level>(level));
    *count = static_cast<int>(group.size());
    if (ranks == nullptr) return;
    if (size < *count)
      throw weir::Error(WEIR_ERR_ARGUMENT,
                        "there is room for " + std::to_string(size) + " ranks: the group has " + std::to_string(*count));
    std::copy(group.begin(), group.end(), ranks);
  });
}

weir_status weir_comm_subgroup(weir_comm* comm, const int* ranks, int count, weir_comm** subgroup) {
  if (subgroup != nullptr) *subgroup = nullptr;
  return guard_handle(comm, [&] {
    need(count >= 0, "the number of ranks is negative");
    need(ranks != nullptr || count == 0, "the ranks are NULL");
    // Collective: pass on an error here, so that all members report it.
    const char* const refusal = subgroup == nullptr ? "the address for the subgroup is NULL" : nullptr;
    const std::span list(ranks, static_cast<std::size_t>(count));
    *subgroup = communicator_handle(weir::Communicator(weir::detail::make_subgroup(comm->communicator.state(), list, refusal)));
  });
}

weir_status weir_comm_nearest_gpu(const weir_comm* comm, int* gpu) {
  return guard_handle(comm, [&] {
    const int nearest = comm->communicator.nearest_gpu();  // collective: call it even if the address is NULL
    need(gpu != nullptr, "the address for the GPU is NULL");
    *gpu = nearest;
  });
}

weir_status weir_comm_stragglers(weir_comm* comm, int runs, double* shares, int size) {
  return guard_handle(comm, [&] {
    const std::vector<double> all = comm->communicator.stragglers(runs);  // collective: call it even if the address is NULL
    need(shares != nullptr, "the address for the shares is NULL");
    if (size < static_cast<int>(all.size()))
      throw weir::Error(WEIR_ERR_ARGUMENT, "there is room for " + std::to_string(size) + " shares: the communicator has " +
                                               std::to_string(all.size()) + " ranks");
    std::copy(all.begin(), all.end(), shares);
  });
}

weir_status weir_comm_broadcast(weir_comm* comm, void* data, std::int64_t bytes, int root) {
  return guard_handle(comm, [&] { comm->communicator.broadcast_raw(data, bytes, root); });
}

weir_status weir_comm_allgather(weir_comm* comm, const void* mine, std::int64_t bytes, void* all) {
  return guard_handle(comm, [&] { comm->communicator.allgather_raw(mine, bytes, all); });
}

weir_status weir_comm_sum(weir_comm* comm, const void* values, std::int64_t count, std::int32_t type, double* sums,
                          std::int64_t fields) {
  return guard_handle(comm, [&] { comm->communicator.sum_raw(values, count, static_cast<weir::DataType>(type), sums, fields); });
}

weir_status weir_comm_refuse(weir_comm* comm, const char* what, const char* why) {
  return guard_handle(comm, [&] {
    const weir::Error error(WEIR_ERR_ARGUMENT, std::string(reason(why)));
    weir::detail::refuse_making(comm->communicator.state(), what != nullptr ? what : "object", error);
  });
}

weir_status weir_comm_dump(weir_comm* comm, const char* path) {
  return guard_handle(comm, [&] {
    need(path != nullptr, "the path is NULL");
    comm->communicator.dump(path);
  });
}

weir_status weir_comm_destroy(weir_comm* comm) {
  if (comm == nullptr) return WEIR_OK;
  return guard(nullptr, [&] {
    need_alive(comm);
    Use use(comm);
    if (comm->users > 0) {
      comm->error =
          std::to_string(comm->users) +
          " plan(s), table(s), fused allreduce(s), schedule(s) or checkpoint(s) still use this communicator: destroy them first";
      throw weir::Error(WEIR_ERR_BUSY, comm->error);
    }
    remove_handle(comm);
    use.forget();
    delete comm;
  });
}

}  // extern "C"
