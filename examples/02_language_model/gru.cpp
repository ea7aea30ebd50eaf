#include "gru.hpp"

#include <cblas.h>

#include <algorithm>
#include <cmath>

namespace language_model {
namespace {

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

}  // namespace

Gru::Gru(GruShape shape) : shape_(shape) {
  const auto tokens = static_cast<std::size_t>(shape.tokens());
  const auto state = static_cast<std::size_t>(shape.sequences) * static_cast<std::size_t>(shape.hidden);
  states_.resize(static_cast<std::size_t>(shape.length + 1) * state);
  state_gradient_.resize(state);
  for (auto* gates : {&projected_, &recurrent_, &gates_, &projected_gradients_, &recurrent_gradients_})
    gates->resize(tokens * static_cast<std::size_t>(shape.gates()));
}

std::size_t Gru::at(int t, int width) const {
  return static_cast<std::size_t>(t) * static_cast<std::size_t>(shape_.sequences) * static_cast<std::size_t>(width);
}

void Gru::reset_state() { std::ranges::fill(states_, 0.0F); }

std::span<float> Gru::last_state() { return std::span(states_).subspan(at(shape_.length, shape_.hidden)); }

std::span<const float> Gru::outputs() const { return std::span(states_).subspan(at(1, shape_.hidden)); }

void Gru::project(std::span<const float> input_block, std::span<const float> inputs) {
  const int tokens = shape_.tokens(), gates = shape_.gates();
  const float* bias = input_block.data() + input_block.size() - static_cast<std::size_t>(gates);
  for (int token = 0; token < tokens; ++token)
    std::copy_n(bias, gates, projected_.data() + static_cast<std::ptrdiff_t>(token) * gates);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, tokens, gates, shape_.inputs, 1.0F, inputs.data(), shape_.inputs,
              input_block.data(), gates, 1.0F, projected_.data(), gates);
}

void Gru::forward(std::span<const float> recurrent_block, const Pause& pause) {
  const int hidden = shape_.hidden, gates = shape_.gates();
  std::copy_n(&states_[at(shape_.length, hidden)], at(1, hidden), states_.data());
  for (int t = 0; t < shape_.length; ++t) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, shape_.sequences, gates, hidden, 1.0F, &states_[at(t, hidden)], hidden,
                recurrent_block.data(), gates, 0.0F, &recurrent_[at(t, gates)], gates);
    enter_gates(t);
    pause();
  }
}

void Gru::enter_gates(int t) {
  const auto hidden = static_cast<std::size_t>(shape_.hidden);
  for (std::size_t s = 0; s < static_cast<std::size_t>(shape_.sequences); ++s) {
    const std::size_t row = at(t, shape_.gates()) + s * 3 * hidden;
    const float* state = &states_[at(t, shape_.hidden) + s * hidden];
    float* next = &states_[at(t + 1, shape_.hidden) + s * hidden];
    for (std::size_t i = 0; i < hidden; ++i) {
      const std::size_t r = row + i, z = r + hidden, n = z + hidden;
      gates_[r] = sigmoid(projected_[r] + recurrent_[r]);
      gates_[z] = sigmoid(projected_[z] + recurrent_[z]);
      gates_[n] = std::tanh(projected_[n] + gates_[r] * recurrent_[n]);
      next[i] = (1.0F - gates_[z]) * gates_[n] + gates_[z] * state[i];
    }
  }
}

void Gru::backward(std::span<const float> recurrent_block, std::span<const float> output_gradients, const Pause& pause) {
  const int hidden = shape_.hidden, gates = shape_.gates();
  std::ranges::fill(state_gradient_, 0.0F);
  for (int t = shape_.length - 1; t >= 0; --t) {
    cblas_saxpy(static_cast<int>(state_gradient_.size()), 1.0F, &output_gradients[at(t, hidden)], 1, state_gradient_.data(), 1);
    leave_gates(t);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, shape_.sequences, hidden, gates, 1.0F, &recurrent_gradients_[at(t, gates)],
                gates, recurrent_block.data(), gates, 1.0F, state_gradient_.data(), hidden);
    pause();
  }
}

void Gru::leave_gates(int t) {
  const auto hidden = static_cast<std::size_t>(shape_.hidden);
  for (std::size_t s = 0; s < static_cast<std::size_t>(shape_.sequences); ++s) {
    const std::size_t row = at(t, shape_.gates()) + s * 3 * hidden;
    const float* state = &states_[at(t, shape_.hidden) + s * hidden];
    float* gradient = &state_gradient_[s * hidden];
    for (std::size_t i = 0; i < hidden; ++i) {
      const std::size_t r = row + i, z = r + hidden, n = z + hidden;
      const float before_tanh = gradient[i] * (1.0F - gates_[z]) * (1.0F - gates_[n] * gates_[n]);
      projected_gradients_[n] = before_tanh;
      recurrent_gradients_[n] = before_tanh * gates_[r];
      projected_gradients_[r] = recurrent_gradients_[r] = before_tanh * recurrent_[n] * gates_[r] * (1.0F - gates_[r]);
      projected_gradients_[z] = recurrent_gradients_[z] = gradient[i] * (state[i] - gates_[n]) * gates_[z] * (1.0F - gates_[z]);
      gradient[i] *= gates_[z];
    }
  }
}

void Gru::recurrent_gradient(std::span<float> gradient) const {
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, shape_.hidden, shape_.gates(), shape_.tokens(), 1.0F, states_.data(),
              shape_.hidden, recurrent_gradients_.data(), shape_.gates(), 0.0F, gradient.data(), shape_.gates());
}

void Gru::input_gradient(std::span<const float> inputs, std::span<float> gradient) const {
  const int gates = shape_.gates();
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, shape_.inputs, gates, shape_.tokens(), 1.0F, inputs.data(), shape_.inputs,
              projected_gradients_.data(), gates, 0.0F, gradient.data(), gates);
  const std::span<float> bias = gradient.last(static_cast<std::size_t>(gates));
  std::ranges::fill(bias, 0.0F);
  for (int token = 0; token < shape_.tokens(); ++token)
    cblas_saxpy(gates, 1.0F, projected_gradients_.data() + static_cast<std::ptrdiff_t>(token) * gates, 1, bias.data(), 1);
}

void Gru::vector_gradients(std::span<const float> input_block, std::span<float> gradients) const {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, shape_.tokens(), shape_.inputs, shape_.gates(), 1.0F,
              projected_gradients_.data(), shape_.gates(), input_block.data(), shape_.gates(), 0.0F, gradients.data(),
              shape_.inputs);
}

}  // namespace language_model
