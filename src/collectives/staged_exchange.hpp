// staged_exchange.hpp: an exchange of compressed vectors in host memory, used from CUDA memory: vectors go through pinned memory.
#pragma once

#include <memory>
#include <utility>

#include "collectives/allreduce.hpp"
#include "collectives/compressed_exchange.hpp"
#include "cuda/runtime.hpp"

namespace weir {

class StagedExchange final : public CompressedExchange {
 public:
  StagedExchange(std::unique_ptr<CompressedExchange> exchange, const ExchangeSpec& spec)
      : exchange_(std::move(exchange)), stream_(spec.stream), values_(spec.count), out_(spec.count) {}

  task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) override {
    cuda::copy(values_.data(), values, values_.bytes(), stream_);
    staged_.record(stream_);
    co_await channel.done(staged_);
    co_await exchange_->run(channel, draw, values_.data(), rest != nullptr ? values_.data() : nullptr, out_.data());
    if (rest != nullptr) cuda::copy(rest, values_.data(), values_.bytes(), stream_);
    cuda::copy(out, out_.data(), out_.bytes(), stream_);
  }
  void reset() override { exchange_->reset(); }
  void visit_state(StateVisitor& visitor) override { exchange_->visit_state(visitor); }
  [[nodiscard]] std::int64_t memory_bytes() const override { return exchange_->memory_bytes() + values_.bytes() + out_.bytes(); }

 private:
  std::unique_ptr<CompressedExchange> exchange_;
  void* stream_;
  cuda::PinnedArray<float> values_, out_;  // what is to be compressed, later what is left of it; the update
  cuda::Event staged_;
};

}  // namespace weir
