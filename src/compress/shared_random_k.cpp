// shared_random_k.cpp: the same k random places on every rank, so that only values travel, and are summed like dense ones (GRACE,
// section III.B, random-k; Stich, Cordonnier, Jaggi: Sparsified SGD with memory; NeurIPS 2018).
//
// One place is drawn in each of k ranges, without replacement. NaN at a drawn place is delivered there. Other values are kept as
// they are.
#include <algorithm>
#include <array>
#include <memory>

#include "base/buffer.hpp"
#include "compress/compressor.hpp"
#include "compress/strata.hpp"

namespace weir::compress {
namespace {

class SharedRandomK final : public CompressedExchange {
 public:
  SharedRandomK(const LinearSpec& problem, bool unbiased)
      : strata_{problem.count, std::min(problem.k, problem.count)},
        unbiased_(unbiased),
        everyone_(static_cast<std::uint32_t>(problem.ranks)),
        places_(strata_.k),
        values_(strata_.k) {
    if (strata_.k > 0) sum_ = problem.make_dense(strata_.k, problem.divisor);
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return places_.bytes() + values_.bytes() + (sum_ ? sum_->memory_bytes() : 0);
  }

  task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) override {
    StageScope stage = channel.stage(Stage::encode);
    if (strata_.k > 0) {
      draw.stream = everyone_;
      stratum_places(strata_, draw, places_.data());
      for (std::int64_t i = 0; i < strata_.k; ++i) values_[i] = travels(values, i);
      stage.next(Stage::allreduce);
      co_await sum_->run(channel, values_.data());
    }
    stage.next(Stage::decode);
    if (rest != nullptr) {
      if (rest != values) std::copy_n(values, strata_.n, rest);
      for (std::int64_t i = 0; i < strata_.k; ++i) rest[places_[i]] = unbiased_ ? rest[places_[i]] - travels(rest, i) : 0;
    }
    std::fill_n(out, strata_.n, 0.0f);
    for (std::int64_t i = 0; i < strata_.k; ++i) out[places_[i]] = values_[i];
  }

 private:
  /// Returns what is summed for place i.
  [[nodiscard]] float travels(const float* values, std::int64_t i) const {
    const float value = values[places_[i]];
    return unbiased_ ? value * static_cast<float>(strata_.size(i)) : value;
  }

  Strata strata_;
  bool unbiased_;
  std::uint32_t everyone_;
  Buffer<std::uint32_t> places_;
  Buffer<float> values_;
  std::unique_ptr<DenseAllreduce<float>> sum_;
};

std::unique_ptr<CompressedExchange> make(const Parameters& parameters, const LinearSpec& problem) {
  return std::make_unique<SharedRandomK>(problem, parameters.whole("unbiased") != 0);
}

std::int64_t summed(const Parameters& /*given*/, std::int64_t /*count*/, std::int64_t k) { return k; }

constexpr std::array parameters = {
    ParameterInfo{
        .name = "unbiased",
        .value = 0,
        .least = 0,
        .most = 1,
        .doc = "1: values are divided by the probability of their place, so that their mean is right; without error feedback"},
};

bool scales_up(const Parameters& given) { return given["unbiased"] != 0; }
std::string_view why_no_feedback(const Parameters& given) {
  return scales_up(given) ? "with unbiased=1 it sends more than there is" : std::string_view();
}

}  // namespace

const CompressorRow shared_random_k_row = {
    .name = "shared_random_k",
    .description = "k random places, the same on every rank; their values are summed without indices",
    .source = "GRACE, section III.B; Stich et al., NeurIPS 2018",
    .carriage = Carriage::linear,
    .random = true,
    .parameters = parameters,
    .encode_adds = 0.1,
    .decode_adds = 1,
    .summed = summed,
    .scales_up = scales_up,
    .why_no_feedback = why_no_feedback,
    .exchange = make,
};

}  // namespace weir::compress
