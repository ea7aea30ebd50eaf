// step_encoding.hpp: runs without messages: a step writes what its rank contributes as bytes. All that it selects or compresses
// counts as delivered. Included by step.hpp.
#pragma once

#include "plan/step.hpp"

namespace weir::detail {

/// Why encode() is refused; empty: it is not.
template <class Memory>
std::string_view Step<Memory>::why_not_encoded() const {
  if (!encodes && config_.memory == MemorySpace::cuda) return "its memory is cuda; encode takes host memory";
  if (!encodes) return "its type is float64; encode takes float32";
  if (!compressor_ || compressor_.row->carriage == compress::Carriage::linear)
    return "its compressor has dense values summed; name one that is sparse or packed, such as top_k or block_quantise";
  if (in_nodes()) return "its algorithm sums within nodes first; name a flat one, such as oktopk or packed_allgather";
  if (feedback_ == Feedback::ef21) return "error_feedback is ef21; choose residual or none";
  if (config_.dense_iterations > 0) return "its first runs are dense; dense_iterations must be 0";
  return {};
}

template <class Memory>
std::int64_t Step<Memory>::prepare_encoding() {
  const std::string_view why = why_not_encoded();
  if (!why.empty()) fail(WEIR_ERR_STATE, "plan '{}' cannot encode: {}", config_.name, why);
  if constexpr (encodes) {
    if (!writer_) {
      const ExchangeSpec spec = exchange_of(config_);
      writer_.emplace(compressor_, config_.count, spec.largest_local, spec.wire());
    }
    return writer_->most_bytes();
  }
  return 0;
}

template <class Memory>
std::int64_t Step<Memory>::encode(const float* gradient, std::byte* out) {
  if constexpr (encodes) {
    update_ = {};
    iteration_ = plan_.delivered_runs();
    statistics_.k = compressed_ ? config_.count : scheduled(iteration_);
    return compressed_ ? encode_packed(gradient, out) : encode_sparse(gradient, out);
  }
  return 0;
}

template <class Memory>
std::int64_t Step<Memory>::encode_packed(const float* gradient, std::byte* out) {
  if (config_.non_finite != NonFinite::propagate && kernels::host::count_non_finite(gradient, config_.count) > 0)
    return encode_nothing(out);
  statistics_.selected_local = config_.count;
  (void)plan_.is_accepted(0);
  return compressed_->encode(*writer_, gradient, iteration_, out);
}

template <class Memory>
std::int64_t Step<Memory>::encode_sparse(const float* gradient, std::byte* out) {
  if (!run_here(contribution_->select(gradient, statistics_.k, draw()))) {
    contribution_->roll_back(true);
    return encode_nothing(out);
  }
  statistics_.selected_local = contribution_->selection().count;
  statistics_.rethresholded = contribution_->rethresholded();
  const std::int64_t bytes = writer_->write_sparse(contribution_->travelling(), out);
  (void)plan_.is_accepted(0);
  contribution_->settle(contribution_->selection());
  return bytes;
}

/// Of a gradient with NaN or infinity: throws, unless the plan skips it.
template <class Memory>
std::int64_t Step<Memory>::encode_nothing(std::byte* out) {
  (void)plan_.is_accepted(input_error_word(InputError::non_finite, comm_.topology.rank()));
  return writer_->write_zeros(out);
}

}  // namespace weir::detail
