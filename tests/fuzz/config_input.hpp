// config_input.hpp: interprets an input of the configurations' fuzzer as a caller's struct of any size and content, and passes it
// to the C interface on a communicator of one virtual rank.
//
//   byte 0      bit 7: a fused allreduce's config, else bit 0: a table's, else a plan's; bits 1-2: whether texts are valid, unknown
//               or NULL; for a fused one, bits 3-5: the threshold
//   bytes 1-2   struct_size
//   then        the struct after struct_size; the initializer's bytes replace missing ones
#pragma once

#include <weir/fusion.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>
#include <weir/embedding.hpp>

#include "shim.hpp"
#include "support/inproc_ranks.hpp"

namespace weir::fuzz {

/// Returns the process's communicator of one rank.
inline weir_comm* lone_rank() {
  static InprocJob job(1, 0, {}, {});
  static weir_comm comm{Communicator(detail::make_communicator(job.transport(0), Location{}, Settings{.log = LogLevel::error}))};
  static const bool added = (capi::add_handle(&comm, capi::HandleKind::communicator), true);
  static_cast<void>(added);
  return &comm;
}

/// Limits a size so that every path is reached, but memory suffices.
inline void limit(std::int64_t& size, std::int64_t most) {
  if (size > most) size &= most;
}

inline bool is_expected(weir_status status) {
  const bool named =
      status == WEIR_ERR_ARGUMENT || status == WEIR_ERR_MEMORY || status == WEIR_ERR_UNSUPPORTED || status == WEIR_ERR_DEVICE;
  return status == WEIR_OK || (named && std::strlen(weir_last_error(nullptr)) > 0);
}

/// Returns the caller's struct in memory of exactly struct_size bytes, so that the address sanitizer sees every access beyond it.
template <class Struct, class Adjust>
std::unique_ptr<Struct, decltype(&std::free)> given_struct(std::span<const std::uint8_t> bytes, Struct initial, Adjust&& adjust) {
  std::uint16_t size = 0;
  std::memcpy(&size, &bytes[1], sizeof size);
  std::vector<std::uint8_t> image(std::max<std::size_t>(size, sizeof initial));
  std::memcpy(image.data(), &initial, sizeof initial);
  const std::span<const std::uint8_t> content = bytes.subspan(3, std::min(bytes.size() - 3, image.size() - sizeof(std::size_t)));
  std::copy(content.begin(), content.end(), image.begin() + sizeof(std::size_t));
  std::memcpy(static_cast<void*>(&initial), image.data(), sizeof initial);
  initial.struct_size = size;
  adjust(initial);
  std::memcpy(image.data(), &initial, sizeof initial);
  const std::size_t room = std::max<std::size_t>(size, sizeof(std::size_t));  // struct_size itself is always there
  std::unique_ptr<Struct, decltype(&std::free)> exact(static_cast<Struct*>(std::malloc(room)), &std::free);
  std::memcpy(static_cast<void*>(exact.get()), image.data(), room);
  return exact;
}

inline const char* text_of(std::uint8_t flags, const char* valid) {
  constexpr std::uint8_t unknown = 1, null = 2;
  const std::uint8_t choice = flags >> 1 & 3;
  return choice == unknown ? "no such name" : choice == null ? nullptr : valid;
}

inline bool plan_contract_holds(std::span<const std::uint8_t> bytes) {
  const auto config = given_struct<weir_allreduce_config>(bytes, WEIR_ALLREDUCE_CONFIG_INIT, [&](weir_allreduce_config& c) {
    c.algorithm = text_of(bytes[0], "oktopk");
    c.algorithm_parameters = text_of(bytes[0], "window=8");
    c.name = text_of(bytes[0], "fuzzed");
    c.threshold = text_of(bytes[0], "reuse");
    c.threshold_parameters = text_of(bytes[0], "period=2");
    c.compressor = text_of(static_cast<std::uint8_t>(bytes[0] >> 2), "");
    c.compressor_parameters = text_of(static_cast<std::uint8_t>(bytes[0] >> 4), "");
    limit(c.count, 0xffff);
    limit(c.trial_iterations, 0xff);
  });
  weir_plan* plan = nullptr;
  const weir_status made = weir_plan_create(lone_rank(), config.get(), &plan);
  if (made != WEIR_OK) return is_expected(made) && plan == nullptr;
  weir_allreduce_config in_force{};
  in_force.struct_size = sizeof in_force;
  bool holds = weir_plan_get_config(plan, &in_force) == WEIR_OK;
  std::vector<double> gradient(static_cast<std::size_t>(in_force.count) + 1, 1.0);  // enough for either type
  holds = holds && weir_plan_run(plan, gradient.data()) == WEIR_OK;
  return weir_plan_destroy(plan) == WEIR_OK && holds;
}

inline bool table_contract_holds(std::span<const std::uint8_t> bytes) {
  const auto config = given_struct<weir_embedding_config>(bytes, WEIR_EMBEDDING_CONFIG_INIT, [&](weir_embedding_config& c) {
    c.exchange = text_of(bytes[0], "columns");
    c.name = text_of(bytes[0], "fuzzed");
    limit(c.rows, 0xfff);
    limit(c.width, 0xff);
    limit(c.largest_batch, 0xff);
  });
  weir_embedding* table = nullptr;
  const weir_status made = weir_embedding_create(lone_rank(), config.get(), &table);
  if (made != WEIR_OK) return is_expected(made) && table == nullptr;
  weir_embedding_config in_force{};
  in_force.struct_size = sizeof in_force;
  bool holds = weir_embedding_get_config(table, &in_force) == WEIR_OK;
  std::vector<float> vectors(static_cast<std::size_t>(in_force.width));
  const std::int32_t id = 0;
  holds = holds && weir_embedding_lookup_int32(table, &id, 1, vectors.data()) == WEIR_OK &&
          weir_embedding_lookup_wait(table) == WEIR_OK;
  holds = holds && weir_embedding_update(table, vectors.data(), 1) == WEIR_OK && weir_embedding_update_wait(table) == WEIR_OK;
  return weir_embedding_destroy(table) == WEIR_OK && holds;
}

inline bool fused_contract_holds(std::span<const std::uint8_t> bytes) {
  const auto config = given_struct<weir_fusion_config>(bytes, WEIR_FUSION_CONFIG_INIT, [&](weir_fusion_config& c) {
    constexpr const char* thresholds[] = {"exact", "reuse", "mstopk", "sampled", "gaussian", "sidco", "redsync", "unknown"};
    c.algorithm = text_of(bytes[0], "oktopk");
    c.algorithm_parameters = text_of(bytes[0], "");
    c.name = text_of(bytes[0], "fuzzed");
    c.threshold = text_of(bytes[0], thresholds[bytes[0] >> 3 & 7]);
    c.threshold_parameters = text_of(bytes[0], "");
  });
  weir_fused_tensor tensors[] = {WEIR_FUSED_TENSOR_INIT, WEIR_FUSED_TENSOR_INIT, WEIR_FUSED_TENSOR_INIT};
  constexpr std::int64_t counts[] = {300, 7, 41};
  constexpr const char* names[] = {"first", "bias", "last"};
  for (int i = 0; i < 3; ++i) {
    tensors[i].name = names[i];
    tensors[i].count = counts[i];
  }
  tensors[1].dense = 1;
  weir_fused* fused = nullptr;
  const weir_status made = weir_fused_create(lone_rank(), config.get(), tensors, 3, &fused);
  if (made != WEIR_OK) return is_expected(made) && fused == nullptr;
  std::vector<double> gradients[] = {std::vector<double>(300, 1.0), std::vector<double>(7, 1.0), std::vector<double>(41, 1.0)};
  bool holds = true;
  for (int t = 0; t < 2; ++t) {
    for (int i = 2; i >= 0; --i) holds = holds && weir_fused_ready(fused, i, gradients[i].data(), counts[i]) == WEIR_OK;
    holds = holds && weir_fused_wait_all(fused) == WEIR_OK;
  }
  return weir_fused_destroy(fused) == WEIR_OK && holds;
}

inline bool config_contract_holds(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 3) return true;
  if ((bytes[0] & 0x80) != 0) return fused_contract_holds(bytes);
  return (bytes[0] & 1) != 0 ? table_contract_holds(bytes) : plan_contract_holds(bytes);
}

}  // namespace weir::fuzz
