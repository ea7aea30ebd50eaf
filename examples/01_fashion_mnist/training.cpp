#include "training.hpp"

#include <cblas.h>
#include <weir/mpi.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace fashion_mnist {
namespace {

/// Returns the plan's algorithm. A plan made with "auto" names its choice.
weir::AlgorithmInfo algorithm_of(const weir::AllreducePlan& plan) {
  const auto known = weir::algorithms();
  return *std::ranges::find(known, plan.config().algorithm, &weir::AlgorithmInfo::name);
}

/// Returns whether the gradient travels compressed, but not as selected entries.
bool travels_compressed(const weir::AllreducePlan& plan) {
  const weir::AlgorithmInfo algorithm = algorithm_of(plan);
  const std::string_view compressor = plan.config().compressor;
  return algorithm.packed || (!algorithm.sparse && !compressor.empty() && compressor != "none");
}

weir::AllreduceConfig plan_config(const Options& options, std::int64_t count, std::int64_t steps_per_epoch) {
  weir::AllreduceConfig config;
  config.count = count;
  config.density = options.density;
  config.algorithm = options.algorithm;
  config.threshold = options.threshold;
  config.compressor = options.compressor;
  config.compressor_parameters = options.compressor_parameters;
  config.error_feedback = options.error_feedback;
  config.feedback_decay = options.feedback_decay;
  config.warmup_iterations = std::llround(options.density_warmup_epochs * static_cast<double>(steps_per_epoch));
  config.name = "gradient";
  return config;
}

/// Returns the curve as text from which curve_of() reads the same numbers.
std::string text_of(const std::vector<CurvePoint>& curve) {
  nlohmann::json json = nlohmann::json::array();
  for (const CurvePoint& p : curve) json.push_back({p.step, p.epoch, p.bytes_per_rank, p.seconds, p.loss, p.accuracy});
  return json.dump();
}
std::vector<CurvePoint> curve_of(const std::string& text) {
  std::vector<CurvePoint> curve;
  for (const nlohmann::json& p : nlohmann::json::parse(text))
    curve.push_back({.step = p[0], .epoch = p[1], .bytes_per_rank = p[2], .seconds = p[3], .loss = p[4], .accuracy = p[5]});
  return curve;
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
      sparse_(algorithm_of(plan_).sparse),
      after_(options_.optimizer == Optimizer::after || options_.optimizer == Optimizer::lars ||
             (options_.optimizer == Optimizer::automatic && travels_compressed(plan_))),
      entries_(sparse_ && !after_ && options_.error_feedback != weir::Feedback::ef21),
      parameters_(network_.initial_parameters(options_.seed)),
      velocity_(parameters_.size(), 0.0F),
      update_(after_ || travels_compressed(plan_) || (sparse_ && !entries_) ? parameters_.size() : 0, 0.0F),
      resume_(comm_, options_.checkpoint) {
  static_assert(sizeof(Tally) % sizeof(double) == 0);
  if (options_.optimizer == Optimizer::lars) make_layer_optimizer();
  resume_.add(plan_, parameters_, velocity_, {&tally_.split.compute, sizeof(Tally) / sizeof(double)});
  if (lars_) resume_.add(*lars_);
}

void Trainer::make_layer_optimizer() {
  std::vector<weir::OptimizedLayer> layers;
  for (const Network::Array& array : network_.arrays()) {
    layers.push_back({.name = array.name, .count = array.count, .excluded = array.is_bias});
    layer_weights_.push_back(&parameters_[array.begin]);
    layer_gradients_.push_back(&update_[array.begin]);
  }
  weir::OptimizerConfig config;
  config.rule = weir::OptimizerRule::lars;
  config.momentum = options_.momentum;
  config.weight_decay = 0;
  config.trust_coefficient = options_.trust_coefficient;
  lars_.emplace(comm_, config, layers);
}

TrainingResult Trainer::run(Observer& observer) {
  TrainingResult result;
  result.ranks = comm_.size();
  result.sparse = sparse_;
  result.compressed = travels_compressed(plan_);
  result.parameters = network_.parameter_count();
  result.steps = steps_;
  const std::int64_t done = resume(result.curve);
  if (result.curve.empty()) result.curve.push_back(measure(0));
  for (std::int64_t number = done + 1; number <= steps_ && !result.stopped; ++number) {
    step(number);
    if (number % options_.evaluate_every == 0 || number == steps_) result.curve.push_back(measure(number));
    observer.on_step(number, steps_, result.curve.back());
    const double epochs = static_cast<double>(number) / static_cast<double>(sampler_.batches_per_epoch());
    result.stopped = !resume_.go_on(number, {epochs, text_of(result.curve)}, number == steps_);
  }
  result.split = {.compute = mean(tally_.split.compute),
                  .selection = mean(tally_.split.selection),
                  .exchange = mean(tally_.split.exchange),
                  .apply = mean(tally_.split.apply)};
  return result;
}

std::int64_t Trainer::resume(std::vector<CurvePoint>& curve) {
  const auto progress = resume_.restore();
  if (!progress) return 0;
  curve = curve_of(progress->curve);
  // The number of steps in an epoch depends on the number of ranks, which may have changed.
  const std::int64_t done =
      std::min<std::int64_t>(steps_, std::llround(progress->epochs * static_cast<double>(sampler_.batches_per_epoch())));
  sampler_.skip(done);
  return done;
}

void Trainer::step(std::int64_t number) {
  const double begin = MPI_Wtime();
  const auto rate = static_cast<float>(learning_rate(number)), momentum = static_cast<float>(options_.momentum);
  // With the optimizer before the plan, an entry in the residual keeps the learning rate it was made with and accumulates its
  // momentum there (Deep Gradient Compression). Without compression this is ordinary momentum, because averaging is linear.
  tally_.loss += network_.accumulate_gradient(parameters_, sampler_.next(), after_ ? 1 : rate, after_ ? 0 : momentum,
                                              after_ ? update_ : velocity_);
  tally_.losses += 1;
  if (!after_ && !update_.empty()) update_ = velocity_;
  const double computed = MPI_Wtime();
  if (entries_) {
    plan_.run_sparse(velocity_);
  } else {
    plan_.run(update_.empty() ? velocity_ : update_);
  }
  const double exchanged = MPI_Wtime();
  update_parameters(rate, momentum);
  const double end = MPI_Wtime();

  const weir::Statistics& statistics = plan_.statistics();
  tally_.split.compute += (computed - begin) + (end - exchanged);
  tally_.split.selection += statistics.seconds_select;
  tally_.split.exchange += statistics.seconds_exchange;
  tally_.split.apply += statistics.seconds_apply;
  tally_.bytes_sent += static_cast<double>(statistics.payload_bytes_sent + statistics.control_bytes_sent);
  tally_.seconds += end - begin;
}

void Trainer::update_parameters(float rate, float momentum) {
  if (lars_) {
    lars_->step(layer_weights_, layer_gradients_, rate);
    return;
  }
  const auto count = static_cast<int>(parameters_.size());
  if (after_) {
    cblas_sscal(count, momentum, velocity_.data(), 1);
    cblas_saxpy(count, 1.0F, update_.data(), 1, velocity_.data(), 1);
    cblas_saxpy(count, -rate, velocity_.data(), 1, parameters_.data(), 1);
    return;
  }
  if (!entries_) {
    cblas_saxpy(count, -1.0F, (update_.empty() ? velocity_ : update_).data(), 1, parameters_.data(), 1);
    return;
  }
  const auto update = plan_.sparse_result<float>();
  for (std::size_t i = 0; i < update.indices.size(); ++i) {
    parameters_[update.indices[i]] -= update.values[i];
    // The delivered entry includes its momentum. Stale velocity would move the parameter too far.
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
                   .bytes_per_rank = mean(tally_.bytes_sent),
                   .seconds = mean(tally_.seconds),
                   .loss = mean(tally_.loss / std::max(1.0, tally_.losses)),
                   .accuracy = test_accuracy()};
  tally_.loss = tally_.losses = 0;
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
