// weir/optim.hpp: the parallel tensor operator (CommLib section 4.2), which divides work among ranks that every rank would
// otherwise do whole, and the optimizers LARS and LAMB on it.
//
//   std::vector<weir::OperatorPart> parts;   // one for each layer
//   for (const Layer& layer : layers) parts.push_back({.seconds = layer.count * 1e-9, .result_bytes = 2 * sizeof(double)});
//   weir::ParallelOperator norms(comm, {.name = "norms"}, parts);
//   norms.run([&](int layer, std::span<std::byte> result) { ...; return std::ssize(result); }, results);
//
// Every rank then has all results, as if it had done all the work.
#ifndef WEIR_OPTIM_HPP
#define WEIR_OPTIM_HPP

#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

namespace detail {
class OperatorImpl;
class OptimizerImpl;
}  // namespace detail

/// Works on one part, on this rank. Writes its result, which is part.result_bytes long. Returns the number of bytes of the result;
/// only with `variable` may that be fewer. The same part must give the same bytes on every rank. If the body throws, every rank
/// throws the same. It must not call its operator.
using OperatorBody = std::function<std::int64_t(int part, std::span<std::byte> result)>;

/// Computes r[p] = OP(g[p]) on rank p, then gathers all r[p] on every rank (CommLib equations 13 and 14). Each rank works on
/// consecutive parts, divided so that the rank with the most work has as little as possible. Parts are divided among the ranks of
/// each node, among all ranks, or not at all: the cost functions choose what they predict to end first, unless
/// OperatorConfig::division says.
///
/// Results lie one after the other, in the order of parts, each at its offset. With `variable`, a result that is shorter leaves the
/// rest of its place as it was. An operator has one run at a time. Thread-safety: as for plans.
class ParallelOperator {
 public:
  /// Collective. Allocates everything. Throws on all ranks if the ranks' configurations or parts differ.
  ParallelOperator(const Communicator& comm, const OperatorConfig& config, std::span<const OperatorPart> parts);
  ParallelOperator(ParallelOperator&&) noexcept = default;
  ParallelOperator& operator=(ParallelOperator&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator. Finishes a run in flight, since the other ranks wait for
  /// it.
  ~ParallelOperator() = default;

  /// Collective, blocking. Calls `body` for the parts of this rank, in order, and gathers the results of all parts. `results` are
  /// bytes() long, with any alignment.
  void run(const OperatorBody& body, std::span<std::byte> results);
  /// Collective, nonblocking. Calls `body` here, and gathers results in test and wait. `results` belong to the operator until the
  /// operation has finished. The operation throws an error of `body`.
  [[nodiscard]] Operation start(const OperatorBody& body, std::span<std::byte> results);
  /// Collective: takes the place of start() or run() on a rank that has no valid arguments for them. Bindings of other languages
  /// call it if their checks fail. The run ends with Error(WEIR_ERR_ARGUMENT) on all ranks; its text names the rank and says `why`.
  [[nodiscard]] Operation refuse(std::string_view why);

  [[nodiscard]] int size() const;                              ///< number of parts
  [[nodiscard]] std::int64_t bytes() const;                    ///< bytes of all results
  [[nodiscard]] std::int64_t offset(int part) const;           ///< offset of the part's result
  [[nodiscard]] std::int64_t result_bytes(int part) const;     ///< bytes of the part's result in the last run
  [[nodiscard]] bool works_on(int part) const;                 ///< whether this rank works on the part
  [[nodiscard]] const OperatorConfig& config() const;          ///< in force; `division` is what automatic choice stands for
  [[nodiscard]] const OperatorStatistics& statistics() const;  ///< statistics of the last run
  /// Returns, as text, why work is divided as it is.
  [[nodiscard]] std::string explanation() const;
  /// Returns the number of bytes that this operator holds on this rank, besides the caller's results.
  [[nodiscard]] std::int64_t memory_bytes() const;

 private:
  detail::Owner<detail::OperatorImpl> state_;
};

/// Steps layers by LARS (You et al. 2018; CommLib equation 11) or LAMB (You et al. 2020, Algorithm 2): each layer has a rate of its
/// own, in proportion to the norm of its weights.
///
/// - lars: rate = trust_coefficient |w| / (|g| + weight_decay |w|)
///
///         v = momentum v + learning_rate rate (g + weight_decay w); w -= v
///
/// - lamb: m and v are Adam's moments of g; u = m' / (sqrt(v') + epsilon) + weight_decay w; rate = |w| / |u|
///
///         w -= learning_rate rate u
///
/// m' and v' are corrected for their start at zero. The rate is 1 for excluded layers and if a norm is 0; it is at most
/// largest_rate in these cases, too. Weights and gradients are the same on all ranks. After a step, weights are still the same, bit
/// for bit, whether work was divided or not, and on any number of ranks: norms are sums of sums over blocks of 65,536 elements.
///
/// Norms are divided among ranks (ParallelOperator), and the update may be, too. Each rank then keeps momentum for its part only
/// and steps that part, and weights are gathered (ZeRO stage 1). OptimizerConfig::norms and update say how; by default the cost
/// functions choose.
///
/// With 16-bit weights (OptimizerConfig::type), the optimizer also keeps float32 weights, for the part whose momentum it keeps. It
/// takes them from the weights of the first step, steps them in float32, and rounds them to the 16-bit weights: to nearest, ties to
/// even, and to the largest finite number if they are beyond it. If you change the 16-bit weights, the optimizer detects this and
/// takes the new ones over. memory_bytes() and the saved state count the float32 weights. Messages carry 16-bit weights. With lars
/// the norm of weights is that of the 16-bit ones, with lamb that of the float32 ones.
///
/// In CUDA memory (OptimizerConfig::memory) all arrays are on the optimizer's GPU, and calls take a `stream`, a cudaStream_t. A
/// step comes after the work that is on the stream; work put onto the stream after the call sees the weights. The host waits for
/// norms, and for weights that go to other ranks, which pass through its memory. Weights that come from other ranks arrive on the
/// stream after the call. All have the bits that they would have in host memory. Automatic choice divides nothing there, because
/// machine files do not know how fast a GPU is. In host memory, `stream` stays nullptr.
///
/// Thread-safety: as for plans.
class LayerOptimizer {
 public:
  /// Collective. Allocates everything. Throws on all ranks if the ranks' configurations or layers differ.
  LayerOptimizer(const Communicator& comm, const OptimizerConfig& config, std::span<const OptimizedLayer> layers);
  LayerOptimizer(LayerOptimizer&&) noexcept = default;
  LayerOptimizer& operator=(LayerOptimizer&&) noexcept = default;
  /// Not collective, unless it outlives the last copy of its communicator.
  ~LayerOptimizer() = default;

  /// Collective, blocking. weights[i] and gradients[i] are those of layer i, layers[i].count elements long. learning_rate is equal
  /// on all ranks. Throws Error(WEIR_ERR_NON_FINITE) on all ranks, naming the layer, if a norm is not finite. With lars nothing has
  /// changed then. With lamb the moments have taken the gradient up: call reset() or restore_state() before the next step. The same
  /// holds if one rank's arrays or learning rate are refused: with lamb, the other ranks' moments have taken the gradient up.
  void step(std::span<float* const> weights, std::span<const float* const> gradients, double learning_rate, void* stream = nullptr);
  /// Does the same for arrays of OptimizerConfig::type, aligned to it.
  void step_raw(std::span<void* const> weights, std::span<const void* const> gradients, double learning_rate,
                void* stream = nullptr);
  /// Collective: takes the place of step(), like ParallelOperator::refuse. Throws on all ranks. Weights have not changed; for
  /// moments, see step().
  void refuse(std::string_view why);

  [[nodiscard]] int size() const;                       ///< number of layers
  [[nodiscard]] std::span<const double> rates() const;  ///< rates of the layers in the last step
  [[nodiscard]] const OptimizerConfig& config() const;  ///< in force; `norms` and `update` are what automatic choice stands for
  /// Returns what the last step did on this rank.
  [[nodiscard]] const OptimizerStatistics& statistics() const;
  /// Returns, as text, why work is divided as it is.
  [[nodiscard]] std::string explanation() const;
  /// Returns the number of bytes that this optimizer holds on this rank, besides the caller's arrays.
  [[nodiscard]] std::int64_t memory_bytes() const;
  /// Same as AllreducePlan::state_bytes, save_state and restore_state.
  [[nodiscard]] std::int64_t state_bytes() const;
  void save_state(std::span<std::byte> state) const;
  void restore_state(std::span<const std::byte> state);
  /// Forgets momentum or moments, and the number of steps. Sends nothing, but every rank must call it before the same step.
  void reset();
  [[nodiscard]] const std::shared_ptr<detail::OptimizerImpl>& state() const noexcept { return *state_; }

 private:
  detail::Owner<detail::OptimizerImpl> state_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
