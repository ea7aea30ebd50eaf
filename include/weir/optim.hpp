// weir/optim.hpp: work that every rank would do alike, divided among ranks: the parallel tensor operator (CommLib section 4.2).
//
//   std::vector<weir::OperatorPart> parts;   // one for each layer
//   for (const Layer& layer : layers) parts.push_back({.seconds = layer.count * 1e-9, .result_bytes = 2 * sizeof(double)});
//   weir::ParallelOperator norms(comm, {.name = "norms"}, parts);
//   norms.run([&](int layer, std::span<std::byte> result) { ...; return std::ssize(result); }, results);
//
// Every rank has all results then, as if each had done all the work.
#ifndef WEIR_OPTIM_HPP
#define WEIR_OPTIM_HPP

#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class OperatorImpl;
class OptimizerImpl;
}  // namespace detail

/// Calls nothing of its operator. Works on one part, on this rank, and writes its result, part.result_bytes long. Returns how many
/// bytes of it there are; only with `variable` may that be fewer. The same part gives the same bytes on every rank. What it throws,
/// every rank throws.
using OperatorBody = std::function<std::int64_t(int part, std::span<std::byte> result)>;

/// r[p] = OP(g[p]) on rank p, then an allgather of all r[p] (CommLib equations 13 and 14). Parts are divided in a row, so that the
/// rank with the most work has as little as possible; among the ranks of each node, among all ranks, or not at all: by the cost
/// functions, whichever is predicted to end first, unless OperatorConfig::division says.
///
/// Results lie one after the other, in the order of parts, each at its offset; with `variable`, a result that is shorter leaves the
/// rest of its place as it was. One run at a time per operator. Thread-safety: as plans.
class ParallelOperator {
 public:
  /// Collective. Allocates everything; refuses on all ranks when the ranks' configurations or parts differ.
  ParallelOperator(const Communicator& comm, const OperatorConfig& config, std::span<const OperatorPart> parts);
  ParallelOperator(ParallelOperator&&) noexcept = default;
  ParallelOperator& operator=(ParallelOperator&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator. Finishes a run in flight, since the other ranks wait for
  /// it.
  ~ParallelOperator() = default;

  /// Collective, blocking. Calls body for the parts of this rank, in order. `results` are bytes() long, aligned as the caller
  /// likes.
  void run(const OperatorBody& body, std::span<std::byte> results);
  /// Collective, nonblocking: body is called here, results are gathered in test and wait. They belong to the operator until the
  /// operation has finished. An error of body comes with the operation's.
  [[nodiscard]] Operation start(const OperatorBody& body, std::span<std::byte> results);
  /// Collective, in place of start() or run() where this rank has nothing right to give to them, as the bindings of other languages
  /// find out: the run ends with Error(WEIR_ERR_ARGUMENT) on all ranks, whose text names the rank and says `why`.
  [[nodiscard]] Operation refuse(std::string_view why);

  [[nodiscard]] int size() const;                              ///< parts
  [[nodiscard]] std::int64_t bytes() const;                    ///< of all results
  [[nodiscard]] std::int64_t offset(int part) const;           ///< of a result
  [[nodiscard]] std::int64_t result_bytes(int part) const;     ///< of a result of the last run
  [[nodiscard]] bool works_on(int part) const;                 ///< whether this rank does
  [[nodiscard]] const OperatorConfig& config() const;          ///< in force: `division` is what automatic choice stands for
  [[nodiscard]] const OperatorStatistics& statistics() const;  ///< of the last run
  /// Returns, as text, why work is divided as it is.
  [[nodiscard]] std::string explanation() const;
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  detail::Owner<detail::OperatorImpl> state_;
};

/// LARS (You et al. 2018; CommLib equation 11) and LAMB (You et al. 2020, Algorithm 2): each layer steps by a rate of its own, in
/// proportion to its weights' norm.
///
/// - lars: rate = trust_coefficient |w| / (|g| + weight_decay |w|)
///
///         v = momentum v + learning_rate rate (g + weight_decay w); w -= v
///
/// - lamb: m and v are Adam's moments of g; u = m' / (sqrt(v') + epsilon) + weight_decay w; rate = |w| / |u|
///
///         w -= learning_rate rate u
///
/// with m' and v' corrected for their start at zero. The rate is 1 for excluded layers and where a norm is 0. It is at
/// most largest_rate, there too. Weights and gradients are the same on all ranks; so are they after a step, bit for bit, whether
/// work was divided or not, and on any number of ranks: norms are sums of sums over blocks of 65,536 elements.
///
/// Norms are divided among ranks (ParallelOperator), and so may be the update: each rank then keeps momentum for its part only,
/// steps it, and weights are gathered (ZeRO stage 1). OptimizerConfig::norms and update say how; by default the cost functions do.
///
/// With 16-bit weights (OptimizerConfig::type), the optimizer keeps float32 ones beside them, where it keeps their momentum: it
/// takes them from the first step's weights, steps them in float32, and rounds them to the weights: to nearest, ties to even, and
/// to the largest finite number what is beyond it. Weights that are no longer what it has made of its own have been set by the
/// caller, and are taken over. memory_bytes() and the saved state count them. What travels is of 16 bits. The norm of weights is
/// that of the 16-bit ones with lars, of the float32 ones with lamb.
///
/// In CUDA memory (OptimizerConfig::memory) all arrays are on the optimizer's GPU, and `stream`, a cudaStream_t, says when: a step
/// comes after what is on the stream, and what is put onto it after the call sees the weights. The host waits for norms, and for
/// weights that go to other ranks, which pass through its memory; weights that come from there arrive behind the call. They have
/// the bits that they would have in host memory. Automatic choice divides nothing there: machine files do not know how fast a
/// GPU is. Elsewhere `stream` stays nullptr.
///
/// Thread-safety: as plans.
class LayerOptimizer {
 public:
  /// Collective. Allocates everything; refuses on all ranks when the ranks' configurations or layers differ.
  LayerOptimizer(const Communicator& comm, const OptimizerConfig& config, std::span<const OptimizedLayer> layers);
  LayerOptimizer(LayerOptimizer&&) noexcept = default;
  LayerOptimizer& operator=(LayerOptimizer&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator.
  ~LayerOptimizer() = default;

  /// Collective, blocking. weights[i] and gradients[i] are those of layer i, layers[i].count elements long; learning_rate is equal
  /// on all ranks. Throws on all ranks Error(WEIR_ERR_NON_FINITE), naming the layer, where a norm is not finite; with lars nothing
  /// has changed then, with lamb the moments have taken the gradient up: reset() or restore_state() before the next step. The same
  /// holds where one rank's arrays or learning rate are refused: with lamb, the other ranks' moments have taken the gradient up.
  void step(std::span<float* const> weights, std::span<const float* const> gradients, double learning_rate, void* stream = nullptr);
  /// The same for arrays of OptimizerConfig::type, aligned to it.
  void step_raw(std::span<void* const> weights, std::span<const void* const> gradients, double learning_rate,
                void* stream = nullptr);
  /// Collective, in place of step(), as ParallelOperator::refuse: throws on all ranks. Weights have not changed; of moments, see
  /// step().
  void refuse(std::string_view why);

  [[nodiscard]] int size() const;                       ///< layers
  [[nodiscard]] std::span<const double> rates() const;  ///< of layers, in the last step
  [[nodiscard]] const OptimizerConfig& config() const;  ///< in force: `norms` and `update` are what automatic choice stands for
  [[nodiscard]] const OptimizerStatistics& statistics() const;
  /// Returns, as text, why work is divided as it is.
  [[nodiscard]] std::string explanation() const;
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// As AllreducePlan's.
  [[nodiscard]] std::int64_t state_bytes() const;
  void save_state(std::span<std::byte> state) const;
  void restore_state(std::span<const std::byte> state);
  void reset();
  [[nodiscard]] const std::shared_ptr<detail::OptimizerImpl>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::OptimizerImpl> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
