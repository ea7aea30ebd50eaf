// power_sgd.cpp: PowerSGD (Vogels, Karimireddy, Jaggi: PowerSGD: practical low-rank gradient compression for distributed
// optimization; NeurIPS 2019, Algorithm 1): one step of power iteration for a low-rank approximation of the mean matrix, continued
// from the last iteration.
//
// Beyond the paper: a column of Q that is zero, as at the start, is drawn again, since iterations never leave zero. It becomes zero
// if the matrix has a lower rank. Other columns are scaled by a power of two, so that small gradients do not vanish in products. If
// a value is not finite, or a product overflows, the whole update is NaN, no residual is kept, and Q starts again.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "base/buffer.hpp"
#include "base/state.hpp"
#include "compress/compressor.hpp"
#include "compress/low_rank.hpp"
#include "compress/philox.hpp"

namespace weir::compress {
namespace {

class PowerSgd final : public CompressedExchange {
 public:
  PowerSgd(MatrixShape shape, std::int64_t rank, const LinearSpec& problem)
      : shape_(shape),
        rank_(rank),
        everyone_(static_cast<std::uint32_t>(problem.ranks)),
        factor_(static_cast<float>(problem.ranks / problem.divisor)),
        p_(rank * shape.rows()),
        q_(rank * shape.columns),
        products_(rank) {
    if (shape.count > 0) {
      mean_p_ = problem.make_dense(p_.size(), problem.ranks);
      mean_q_ = problem.make_dense(q_.size(), problem.ranks);
    }
    reset();
  }

  void reset() override { std::fill_n(q_.data(), q_.size(), 0.0f); }

  void visit_state(StateVisitor& visitor) override {
    visitor.fixed("rank", rank_, Share::agreed);
    visitor.fixed("columns", shape_.columns, Share::agreed);
    const StateVisitor::Placed placed(visitor, {Share::agreed, visitor.placement().region});
    visitor.array("q", q_.data(), q_.size(), [](void* to, const void* from, std::int64_t bytes) {
      if (bytes > 0) std::memcpy(to, from, static_cast<std::size_t>(bytes));
    });
  }

  [[nodiscard]] std::int64_t memory_bytes() const override {
    return p_.bytes() + q_.bytes() + products_.bytes() + (mean_p_ ? mean_p_->memory_bytes() + mean_q_->memory_bytes() : 0);
  }

  task<void> run(Channel channel, Draw draw, const float* values, float* rest, float* out) override {
    if (shape_.count == 0) co_return;
    // 1. Q of the last iteration
    StageScope stage = channel.stage(Stage::encode);
    draw.stream = everyone_;
    for (std::int64_t j = 0; j < rank_; ++j) prepare_column(draw, j);
    // 2. P = M Q, its columns made orthogonal (lines 3 to 5)
    multiply(shape_, values, q_.data(), rank_, p_.data());
    stage.next(Stage::allreduce);
    co_await mean_p_->run(channel, p_.data());
    stage.next(Stage::encode);
    orthogonalise(p_.data(), shape_.rows(), rank_, products_.data());
    // 3. Q = M^T P (lines 6 and 7)
    multiply_transposed(shape_, values, p_.data(), rank_, q_.data());
    stage.next(Stage::allreduce);
    co_await mean_q_->run(channel, q_.data());
    stage.next(Stage::decode);
    // 4. P Q^T, and what it lacks (line 8). A value that is not finite makes P so, and P a whole column of Q.
    if (std::all_of(q_.data(), q_.data() + q_.size(), [](float x) { return std::isfinite(x); })) {
      split_off(shape_, values, p_.data(), q_.data(), rank_, factor_, rest, out);
      co_return;
    }
    if (rest != nullptr) std::fill_n(rest, shape_.count, 0.0f);
    std::fill_n(out, shape_.count, std::numeric_limits<float>::quiet_NaN());
    reset();
  }

 private:
  void prepare_column(const Draw& draw, std::int64_t j) {
    float* const column = q_.data() + j * shape_.columns;
    float largest = 0;
    for (std::int64_t i = 0; i < shape_.columns; ++i) largest = std::max(largest, std::abs(column[i]));
    if (largest == 0) {
      for (std::int64_t i = 0; i < shape_.columns; ++i)
        column[i] = 2 * uniform_of(random_bits(draw, static_cast<std::uint64_t>(j * shape_.columns + i))) - (1 - 0x1p-16f);
      return;
    }
    const double scale = std::ldexp(1.0, -std::ilogb(largest));
    for (std::int64_t i = 0; i < shape_.columns; ++i) column[i] = static_cast<float>(static_cast<double>(column[i]) * scale);
  }

  MatrixShape shape_;
  std::int64_t rank_;
  std::uint32_t everyone_;
  float factor_;
  Buffer<float> p_, q_;
  Buffer<double> products_;
  std::unique_ptr<DenseAllreduce<float>> mean_p_, mean_q_;
};

std::unique_ptr<CompressedExchange> make(const Parameters& parameters, const LinearSpec& problem) {
  const MatrixShape shape = matrix_shape(problem.count, parameters.whole("columns"));
  const std::int64_t rank = std::min({parameters.whole("rank"), shape.rows(), shape.columns});
  return std::make_unique<PowerSgd>(shape, problem.count == 0 ? 0 : rank, problem);
}

std::int64_t summed(const Parameters& given, std::int64_t count, std::int64_t /*k*/) {
  const MatrixShape shape = matrix_shape(count, given.whole("columns"));
  return std::min({given.whole("rank"), shape.rows(), shape.columns}) * (shape.rows() + shape.columns);
}

constexpr std::array parameters = {
    ParameterInfo{.name = "rank",
                  .value = 4,
                  .least = 1,
                  .most = 4096,
                  .doc = "r of the approximation: r (rows + columns) values travel instead of rows x columns; at most what the "
                         "matrix has of either"},
    ParameterInfo{.name = "columns",
                  .value = 0,
                  .least = 0,
                  .most = 1LL << 32,
                  .doc = "of the matrix that the elements are, row by row: best a layer's own; 0: as nearly square as possible"},
};

}  // namespace

const CompressorRow power_sgd_row = {
    .name = "power_sgd",
    .description = "a low-rank approximation by power iteration with a warm start",
    .source = "Vogels et al., NeurIPS 2019, Algorithm 1",
    .carriage = Carriage::linear,
    .random = true,
    .parameters = parameters,
    .encode_adds = 1.7,
    .decode_adds = 1.5,
    .summed = summed,
    .exchange = make,
};

}  // namespace weir::compress
