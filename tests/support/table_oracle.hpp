// table_oracle.hpp: a slow, obvious embedding table: one array, and the batches of all ranks in one place.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>
#include <weir/embedding.hpp>

#include "codec/wire.hpp"

namespace weir::test {

/// ids[rank], gradients[rank]: one step's batches.
using Ids = std::vector<std::vector<std::int64_t>>;
using Gradients = std::vector<std::vector<float>>;

class TableOracle {
 public:
  /// `values` is the initial table.
  TableOracle(const EmbeddingConfig& config, std::vector<float> values)
      : config_(config), values_(std::move(values)), first_(values_.size()), second_(values_.size()) {}

  [[nodiscard]] const std::vector<float>& values() const { return values_; }

  /// Returns vectors as they arrive: rounded, unless every rank holds the table.
  [[nodiscard]] std::vector<float> lookup(const std::vector<std::int64_t>& ids) const {
    std::vector<float> vectors;
    for (const std::int64_t id : ids)
      vectors.insert(vectors.end(), values_.begin() + id * config_.width, values_.begin() + (id + 1) * config_.width);
    if (config_.exchange != "allgather" && config_.exchange != "dense_allreduce") round(vectors);
    return vectors;
  }

  void update(const Ids& ids, const Gradients& gradients) {
    std::map<std::int64_t, std::vector<float>> sums;
    for (std::size_t rank = 0; rank < ids.size(); ++rank) {
      std::map<std::int64_t, std::vector<float>> own;
      for (std::size_t token = 0; token < ids[rank].size(); ++token) add(own[ids[rank][token]], &gradients[rank][token * width()]);
      for (auto& [id, row] : own) {
        if (config_.exchange != "dense_allreduce") round(row);
        add(sums[id], row.data());
      }
    }
    ++step_;
    const float divisor = config_.average ? static_cast<float>(ids.size()) : 1;
    for (const auto& [id, row] : sums) {
      for (std::size_t c = 0; c < width(); ++c) apply(static_cast<std::size_t>(id) * width() + c, row[c] / divisor);
    }
  }

  void set_learning_rate(double rate) { config_.learning_rate = rate; }
  void import_rows(std::int64_t first, const std::vector<float>& values) {
    std::copy(values.begin(), values.end(), values_.begin() + first * config_.width);
  }

 private:
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(config_.width); }
  void round(std::vector<float>& x) const {
    wire::round_values(config_.wire_values, x.data(), x.data(), static_cast<std::int64_t>(x.size()));
  }
  void add(std::vector<float>& sum, const float* row) const {
    if (sum.empty()) {
      sum.assign(row, row + width());
    } else {
      for (std::size_t c = 0; c < width(); ++c) sum[c] += row[c];
    }
  }
  void apply(std::size_t i, float g) {
    const auto rate = static_cast<float>(config_.learning_rate), beta1 = static_cast<float>(config_.beta1),
               beta2 = static_cast<float>(config_.beta2), epsilon = static_cast<float>(config_.epsilon);
    if (config_.optimizer == Optimizer::sgd) {
      values_[i] -= rate * g;
    } else if (config_.optimizer == Optimizer::momentum) {
      first_[i] = beta1 * first_[i] + g;
      values_[i] -= rate * first_[i];
    } else if (config_.optimizer == Optimizer::adagrad) {
      first_[i] += g * g;
      values_[i] -= rate * g / (std::sqrt(first_[i]) + epsilon);
    } else {
      first_[i] = beta1 * first_[i] + (1 - beta1) * g;
      second_[i] = beta2 * second_[i] + (1 - beta2) * g * g;
      const auto m = first_[i] / static_cast<float>(1 - std::pow(config_.beta1, step_));
      const auto v = std::sqrt(second_[i]) / static_cast<float>(std::sqrt(1 - std::pow(config_.beta2, step_)));
      values_[i] -= rate * m / (v + epsilon);
    }
  }

  EmbeddingConfig config_;
  std::vector<float> values_, first_, second_;
  int step_ = 0;
};

}  // namespace weir::test
