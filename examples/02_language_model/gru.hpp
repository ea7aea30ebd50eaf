// gru.hpp: a gated recurrent layer (Cho et al., 2014) on BLAS, with truncated back-propagation through time.
//
//   r = sigmoid(x Wr + h Ur + br)      z = sigmoid(x Wz + h Uz + bz)
//   n = tanh(x Wn + r (h Un) + bn)     h' = (1 - z) n + z h
//
// Its parameters are two blocks, each one flat array: "input" (W, inputs x 3 hidden, then b) and "recurrent" (U, hidden x 3
// hidden). Word t of sequence s is row t * sequences + s of every matrix.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace language_model {

/// Called between matrix products, so that communication progresses while a rank computes.
using Pause = std::function<void()>;

struct GruShape {
  int inputs, hidden, sequences, length;
  [[nodiscard]] int tokens() const { return sequences * length; }
  [[nodiscard]] int gates() const { return 3 * hidden; }
  [[nodiscard]] std::size_t input_block() const { return static_cast<std::size_t>(gates()) * static_cast<std::size_t>(inputs + 1); }
  [[nodiscard]] std::size_t recurrent_block() const { return static_cast<std::size_t>(gates()) * static_cast<std::size_t>(hidden); }
};

class Gru {
 public:
  explicit Gru(GruShape shape);

  /// Sets the state to zero.
  void reset_state();

  /// The two parts of the forward pass: project() needs only the input block, forward() only the recurrent block. The pass starts
  /// from the last state of the previous pass.
  void project(std::span<const float> input_block, std::span<const float> inputs);
  void forward(std::span<const float> recurrent_block, const Pause& pause);
  /// Returns the state that the next pass starts from, sequences x hidden.
  [[nodiscard]] std::span<float> last_state();
  /// Returns the state after each word, tokens x hidden.
  [[nodiscard]] std::span<const float> outputs() const;

  /// Runs the backward pass through all words. After it, the three functions below give the gradients of the loss.
  void backward(std::span<const float> recurrent_block, std::span<const float> output_gradients, const Pause& pause);
  void recurrent_gradient(std::span<float> gradient) const;
  void input_gradient(std::span<const float> inputs, std::span<float> gradient) const;
  void vector_gradients(std::span<const float> input_block, std::span<float> gradients) const;

 private:
  void enter_gates(int t);
  void leave_gates(int t);
  [[nodiscard]] std::size_t at(int t, int width) const;

  GruShape shape_;
  std::vector<float> states_;               ///< before the first word and after each, (length + 1) x sequences x hidden
  std::vector<float> projected_;            ///< x W + b
  std::vector<float> recurrent_;            ///< h U
  std::vector<float> gates_;                ///< r, z, n
  std::vector<float> projected_gradients_;  ///< of x W + b
  std::vector<float> recurrent_gradients_;  ///< of h U
  std::vector<float> state_gradient_;       ///< of the state before the current word, from the words that follow
};

}  // namespace language_model
