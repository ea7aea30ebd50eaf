// weir/schedule.hpp: block-level horizontal scheduling (EmbRace section 4.2.1): what the next forward pass needs first travels
// first.
//
//   weir::StepSchedule schedule({"encoder", "decoder", "softmax"});          // in the order of the forward pass
//   weir::AllreducePlan plan(comm, {.count = n, .algorithm = "dense_ring", .priority = schedule.priority("encoder")});
//   schedule.started("encoder", plan.start(gradient));                       // in the backward pass, in any order
//   schedule.wait("encoder");                                                // in the next forward pass, before its turn
#ifndef WEIR_SCHEDULE_HPP
#define WEIR_SCHEDULE_HPP

#include <weir/weir.hpp>

#pragma GCC visibility push(default)
namespace weir {

/// Priorities of the dense blocks of a model, and which of their operations are in flight. Purely local: communicates only through
/// the operations that it is given. Embedding tables need no block, because by default their rows go before or after all blocks.
class StepSchedule {
 public:
  /// Takes the names of the blocks in the order of the forward pass, all different. Throws Error(WEIR_ERR_ARGUMENT) otherwise.
  explicit StepSchedule(std::vector<std::string> blocks_in_forward_order);

  /// Returns the names in the order of the forward pass.
  [[nodiscard]] std::vector<std::string_view> blocks() const;
  /// Returns the priority for everything in this block. The first block's is the number of blocks; the last one's is 1. For an
  /// unknown block throws Error(WEIR_ERR_ARGUMENT), listing the known names, as do all functions below.
  [[nodiscard]] int priority(std::string_view block) const;
  /// Notes an operation of this block. A block may have any number of them, for example one for each of its tensors.
  void started(std::string_view block, Operation operation);
  /// Makes progress on everything in flight. Returns true once nothing of this block is in flight. Throws the error of an operation
  /// that ended with one.
  bool test(std::string_view block);
  /// Waits until nothing of this block is in flight.
  void wait(std::string_view block);
  /// Waits until nothing of any block is in flight.
  void wait_all();

  /// A block with operations in flight.
  struct Pending {
    std::string_view block;
    int priority;
    int operations;  ///< number of operations in flight
  };
  /// Returns the blocks with operations in flight, as of the last test or wait, in forward order.
  [[nodiscard]] std::vector<Pending> pending() const;

 private:
  struct Block {
    std::string name;
    std::vector<Operation> operations;
  };
  [[nodiscard]] std::size_t index_of(std::string_view block) const;

  std::vector<Block> blocks_;
};

}  // namespace weir
#pragma GCC visibility pop

#endif
