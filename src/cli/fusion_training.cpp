#include "cli/fusion_training.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "base/splitmix.hpp"
#include "communicator/communicator.hpp"

namespace weir::cli {
namespace {

// Primes: combinations repeat after 4e10 entries, so few magnitudes are equal.
constexpr std::size_t shared_period = 100003, noise_period = 393241;
constexpr float tensor_spread = 1.5F, entry_spread = 1.0F, iteration_spread = 0.2F, head_start = 4.0F;

constexpr std::array row_names = {"backward", "ready", "wait", "forward"};

/// Maps any integer to a number that looks like a standard normal one.
float normal(std::uint64_t x) {
  const auto unit = [](std::uint64_t bits) { return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53; };
  const double radius = std::sqrt(-2 * std::log(unit(splitmix64(x)))), angle = 2 * 3.14159265358979 * unit(splitmix64(~x));
  return static_cast<float>(radius * std::cos(angle));
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) { return splitmix64(splitmix64(splitmix64(a) + b) + c); }

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tracer::Time time_point(double seconds) {
  return Tracer::Time(std::chrono::duration_cast<Tracer::Time::duration>(std::chrono::duration<double>(seconds)));
}

std::vector<FusedTensor> described(const FusionModel& model, bool dense) {
  std::vector<FusedTensor> tensors;
  for (const FusionModel::Tensor& tensor : model.tensors)
    tensors.push_back({.name = tensor.name, .count = tensor.count, .dense = dense});
  return tensors;
}

}  // namespace

MadeUpGradients::MadeUpGradients(const FusionModel& model, int rank)
    : rank_(static_cast<std::uint64_t>(rank)), shared_(shared_period), noise_(noise_period) {
  std::int64_t end = 0;
  for (const FusionModel::Tensor& tensor : model.tensors) {
    scales_.push_back(std::exp(tensor_spread * normal(scales_.size())));
    offsets_.push_back(end);
    end += tensor.count;
  }
  offsets_.push_back(end);
  values_.resize(static_cast<std::size_t>(end));
  for (std::size_t i = 0; i < shared_.size(); ++i) shared_[i] = std::exp(entry_spread * normal(mixed(1, i)));
  for (std::size_t i = 0; i < noise_.size(); ++i) noise_[i] = normal(mixed(2, i));
}

void MadeUpGradients::make(std::int64_t iteration) {
  const auto t = static_cast<std::uint64_t>(iteration);
  for (std::size_t i = 0; i < scales_.size(); ++i) {
    const std::uint64_t own = mixed(i, rank_, t);
    const float scale = scales_[i] * std::exp(iteration_spread * normal(own)) * (iteration == 0 ? head_start : 1);
    const std::span<float> values = of(static_cast<int>(i));
    std::size_t shared = mixed(3, i) % shared_period, noise = own % noise_period;
    for (std::size_t first = 0; first < values.size();) {
      const std::size_t run = std::min({values.size() - first, shared_period - shared, noise_period - noise});
      for (std::size_t j = 0; j < run; ++j) values[first + j] = scale * shared_[shared + j] * noise_[noise + j];
      first += run;
      shared = (shared + run) % shared_period;
      noise = (noise + run) % noise_period;
    }
  }
}

std::span<float> MadeUpGradients::of(int tensor) {
  const auto i = static_cast<std::size_t>(tensor);
  return std::span(values_).subspan(static_cast<std::size_t>(offsets_[i]), static_cast<std::size_t>(offsets_[i + 1] - offsets_[i]));
}

std::vector<double> forward_seconds(const FusionModel& model, int batch, double flops) {
  std::vector<double> seconds;
  for (const FusionModel::Tensor& tensor : model.tensors) seconds.push_back(2 * tensor.multiply_adds * batch / flops);
  return seconds;
}

FusionTraining::FusionTraining(const Communicator& comm, const FusionConfig& config, const FusionModel& model, bool dense,
                               std::vector<double> forward_seconds, std::function<void(double)> sleep, double poll_seconds)
    : comm_(comm),
      fused_(comm, config, described(model, dense)),
      forward_seconds_(std::move(forward_seconds)),
      sleep_(std::move(sleep)),
      poll_seconds_(poll_seconds) {
  if (!comm.state()->tracer) return;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    names_[i] = fmt::format("{}: {}", config.name, row_names[i]);
    rows_[i].name = names_[i];
    rows_[i].call = comm.state()->engine.new_call();
  }
}

double FusionTraining::step(MadeUpGradients& gradients) {
  const double begin = now();
  double computed = begin;
  for (int i = fused_.size() - 1; i >= 0; --i) {
    const double start = computed;
    computed += 2 * forward_seconds_[static_cast<std::size_t>(i)];
    trace(backward, i, start, computed);
    wait_until(computed);
    traced(ready, i, [&] { fused_.ready(i, gradients.of(i)); });
  }
  for (int i = 0; i < fused_.size(); ++i) {
    traced(wait, i, [&] { fused_.wait(i); });
    const double start = std::max(computed, now());
    computed = start + forward_seconds_[static_cast<std::size_t>(i)];
    trace(forward, i, start, computed);
  }
  traced(wait, fused_.size(), [&] { fused_.wait_all(); });
  wait_until(computed);
  return now() - begin;
}

void FusionTraining::wait_until(double time) {
  for (double left = time - now(); left > 0; left = time - now()) {
    if (poll_seconds_ > 0) fused_.progress();
    sleep_(poll_seconds_ > 0 ? std::min(left, poll_seconds_) : left);
  }
}

template <class Body>
void FusionTraining::traced(Row row, int tensor, Body body) {
  const double begin = now();
  body();
  trace(row, tensor, begin, now());
}

void FusionTraining::trace(Row row, int tensor, double begin, double end) {
  Tracer* const tracer = comm_.state()->tracer.get();
  if (tracer == nullptr) return;
  RunInfo& run = rows_[row];
  run.number = tensor;
  run.begun = time_point(begin);
  tracer->run(run, time_point(end));
}

}  // namespace weir::cli
