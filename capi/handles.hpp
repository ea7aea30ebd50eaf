// handles.hpp: keeps track of live handles, so that using a destroyed one is an error and not a crash.
#pragma once

#include <weir/checkpoint.h>
#include <weir/datacache.h>
#include <weir/embedding.h>
#include <weir/fusion.h>
#include <weir/optim.h>
#include <weir/sparse_adam.h>
#include <weir/sums.h>
#include <weir/weir.h>

#include <string_view>

namespace weir::capi {

enum class HandleKind {
  communicator,
  plan,
  table,
  schedule,
  checkpoint,
  fused,
  parallel_operator,
  optimizer,
  source,
  cache,
  loader,
  sparse_adam,
  sparse_sum
};
[[nodiscard]] std::string_view name_of(HandleKind kind) noexcept;

template <class Handle>
inline constexpr HandleKind handle_kind = HandleKind::communicator;
template <>
inline constexpr HandleKind handle_kind<weir_plan> = HandleKind::plan;
template <>
inline constexpr HandleKind handle_kind<weir_embedding> = HandleKind::table;
template <>
inline constexpr HandleKind handle_kind<weir_schedule> = HandleKind::schedule;
template <>
inline constexpr HandleKind handle_kind<weir_checkpoint> = HandleKind::checkpoint;
template <>
inline constexpr HandleKind handle_kind<weir_fused> = HandleKind::fused;
template <>
inline constexpr HandleKind handle_kind<weir_operator> = HandleKind::parallel_operator;
template <>
inline constexpr HandleKind handle_kind<weir_layer_optimizer> = HandleKind::optimizer;
template <>
inline constexpr HandleKind handle_kind<weir_source> = HandleKind::source;
template <>
inline constexpr HandleKind handle_kind<weir_cache> = HandleKind::cache;
template <>
inline constexpr HandleKind handle_kind<weir_loader> = HandleKind::loader;
template <>
inline constexpr HandleKind handle_kind<weir_sparse_adam> = HandleKind::sparse_adam;
template <>
inline constexpr HandleKind handle_kind<weir_sparse_sum> = HandleKind::sparse_sum;

/* Thread-safe. */
void add_handle(const void* handle, HandleKind kind);
void remove_handle(const void* handle) noexcept;
[[nodiscard]] bool is_alive(const void* handle, HandleKind kind) noexcept;

}  // namespace weir::capi
