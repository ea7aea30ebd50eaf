#include "training.hpp"

#include <cblas.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace fashion_mnist {
namespace {

/// Whether the plan delivers a sparse update. Made with "auto", it names its choice.
bool is_sparse(const weir::AllreducePlan& plan) {
  const auto known = weir::algorithms();
  return std::ranges::find(known, plan.config().algorithm, &weir::AlgorithmInfo::name)->sparse;
}

weir::AllreduceConfig plan_config(const Options& options, std::int64_t count, std::int64_t steps_per_epoch) {
  weir::AllreduceConfig config;
  config.count = count;
  config.density = options.density;
  config.algorithm = options.algorithm;
  config.threshold = options.threshold;
  config.warmup_iterations = std::llround(options.density_warmup_epochs * static_cast<double>(steps_per_epoch));
  config.name = "gradient";
  return config;
}

}  // namespace

Trainer::Trainer(MPI_Comm comm, const Dataset& train, const Dataset& test, Options options)
    : options_(std::move(options)),
      mpi_(comm),
      comm_(comm),
      test_(test),
      sampler_(train, comm_.rank(), comm_.size(), options_.batch, options_.seed),
      steps_(options_.epochs * sampler_.batches_per_epoch()),
      network_({train.pixels, 1024, 256, 10}),
      plan_(comm_, plan_config(options_, network_.parameter_count(), sampler_.batches_per_epoch())),
      sparse_(is_sparse(plan_)),
      parameters_(network_.initial_parameters(options_.seed)),
      velocity_(parameters_.size(), 0.0F) {}

TrainingResult Trainer::run(Observer& observer) {
  TrainingResult result;
  result.ranks = comm_.size();
  result.sparse = sparse_;
  result.parameters = network_.parameter_count();
  result.steps = steps_;
  result.curve.push_back(measure(0));
  for (std::int64_t number = 1; number <= steps_; ++number) {
    step(number);
    if (number % options_.evaluate_every == 0 || number == steps_) result.curve.push_back(measure(number));
    observer.on_step(number, steps_, result.curve.back());
  }
  result.split = {.compute = mean(split_.compute), .selection = mean(split_.selection), .exchange = mean(split_.exchange)};
  return result;
}

void Trainer::step(std::int64_t number) {
  const double begin = MPI_Wtime();
  // Learning rate and momentum enter before the plan: an entry that waits in the residual keeps the learning rate it was
  // made with and gathers its momentum while it waits (Deep Gradient Compression). For a dense plan this is ordinary
  // momentum, because averaging is linear.
  loss_sum_ += network_.accumulate_gradient(parameters_, sampler_.next(), static_cast<float>(learning_rate(number)),
                                            static_cast<float>(options_.momentum), velocity_);
  ++loss_count_;
  const double computed = MPI_Wtime();
  if (sparse_) {
    plan_.run_sparse(velocity_);
  } else {
    plan_.run(velocity_);
  }
  const double exchanged = MPI_Wtime();
  update_parameters();
  const double end = MPI_Wtime();

  const weir::Statistics& statistics = plan_.statistics();
  split_.compute += (computed - begin) + (end - exchanged);
  split_.selection += statistics.seconds_select;
  split_.exchange += statistics.seconds_exchange + statistics.seconds_apply;
  bytes_sent_ += static_cast<double>(statistics.payload_bytes_sent + statistics.control_bytes_sent);
  seconds_ += end - begin;
}

void Trainer::update_parameters() {
  if (!sparse_) {
    cblas_saxpy(static_cast<int>(parameters_.size()), -1.0F, velocity_.data(), 1, parameters_.data(), 1);
    return;
  }
  const auto update = plan_.sparse_result<float>();
  for (std::size_t i = 0; i < update.indices.size(); ++i) {
    parameters_[update.indices[i]] -= update.values[i];
    // What waited has by now delivered its momentum too; kept on, the stale rest would carry the parameter too far.
    velocity_[update.indices[i]] = 0.0F;
  }
}

double Trainer::learning_rate(std::int64_t step) const {
  const auto at = static_cast<double>(step);
  const double warmup = options_.learning_rate_warmup_epochs * static_cast<double>(sampler_.batches_per_epoch());
  if (at < warmup) return options_.learning_rate * at / warmup;
  const double done = (at - warmup) / std::max(1.0, static_cast<double>(steps_) - warmup);
  return options_.learning_rate * 0.5 * (1.0 + std::cos(std::numbers::pi * done));
}

CurvePoint Trainer::measure(std::int64_t step) {
  CurvePoint point{.step = step,
                   .epoch = static_cast<double>(step) / static_cast<double>(sampler_.batches_per_epoch()),
                   .bytes_per_rank = mean(bytes_sent_),
                   .seconds = mean(seconds_),
                   .loss = mean(loss_sum_ / static_cast<double>(std::max<std::int64_t>(1, loss_count_))),
                   .accuracy = test_accuracy()};
  loss_sum_ = 0;
  loss_count_ = 0;
  return point;
}

double Trainer::test_accuracy() {
  const std::int64_t rank = comm_.rank();
  const std::int64_t size = comm_.size();
  const std::int64_t end = test_.count * (rank + 1) / size;
  double correct = 0;
  Batch batch;
  for (std::int64_t first = test_.count * rank / size; first < end; first += options_.batch) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(std::min<std::int64_t>(options_.batch, end - first)));
    std::iota(indices.begin(), indices.end(), first);
    load_batch(test_, indices, batch);
    correct += static_cast<double>(network_.count_correct(parameters_, batch));
  }
  return mean(correct) * static_cast<double>(size) / static_cast<double>(test_.count);
}

double Trainer::mean(double value) const {
  double sum = 0;
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, mpi_);
  return sum / comm_.size();
}

}  // namespace fashion_mnist
