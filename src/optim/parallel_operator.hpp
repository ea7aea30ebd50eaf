// parallel_operator.hpp: divides work on parts among ranks and gathers its results: the implementation of ParallelOperator.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>
#include <weir/optim.hpp>

#include "base/buffer.hpp"
#include "collectives/allgatherv.hpp"
#include "communicator/agreed_outcome.hpp"
#include "communicator/asynchronous_call.hpp"
#include "communicator/outcome.hpp"
#include "optim/division.hpp"

namespace weir::optim {

/// The choices that an operator is made with, agreed on by all ranks.
struct OperatorChoice {
  OperatorConfig config;  ///< in force
  OperatorCost predicted;
  std::string explanation;
};

}  // namespace weir::optim

namespace weir::detail {

/// The implementation of ParallelOperator. A run calls the body on its own parts; then all ranks agree on how it went, and the
/// owners gather their results. If results pass through the operator's own memory, one exchange does both.
class OperatorImpl final : public AsynchronousCall {
 public:
  OperatorImpl(std::shared_ptr<CommunicatorState> communicator, optim::OperatorChoice plan, Lease lease,
               std::span<const OperatorPart> described);

  /// Starts a run. `ahead` may hold an error of this rank from before its work: it then does no work.
  void start(const Outcome& ahead, const OperatorBody& body, std::span<std::byte> results);
  /// Takes part in a run that ends with this error.
  void refuse(std::string_view why);
  void check_part(int part) const;
  /// Returns whether this rank works on the part.
  [[nodiscard]] bool works_on(std::size_t part) const { return part >= begins_[me_] && part < begins_[me_ + 1]; }
  [[nodiscard]] std::int64_t memory_bytes() const { return staging_.bytes(); }

  const OperatorConfig config;          ///< in force
  const optim::OperatorCost predicted;  ///< of a run
  const std::string explanation;
  const std::vector<OperatorPart> parts;
  std::vector<std::int64_t> offsets;  ///< of results, and the end of the last
  std::vector<std::int64_t> sizes;    ///< of results of the last run
  OperatorStatistics statistics;

 protected:
  void completed() override;

 private:
  static constexpr std::int64_t word_bytes = sizeof(std::uint64_t);  // of a size, or of how work went

  /// Returns whether results are large, and so are gathered in a ring, directly in the caller's memory.
  [[nodiscard]] bool uses_ring() const { return offsets.back() >= ring_from_bytes; }
  void work(const OperatorBody& body);
  /// Returns whether the gathered blocks also say how work went. They must reach all ranks, and only later the caller's memory.
  [[nodiscard]] bool carries_outcome() const {
    return owners_.size() > 1 && std::ssize(owners_) == comm->topology.size() && !config.variable && !uses_ring();
  }
  task<void> exchange();
  task<void> gather_staged(Channel group);
  [[nodiscard]] int lowest_failed() const;
  task<void> gather_variable(Channel group);
  void unpack(const std::byte* block, std::size_t owner);

  Lease lease_;
  std::vector<int> owners_;            // the ranks among which parts are divided
  std::size_t me_ = 0;                 // index of this rank in owners_
  optim::Begins begins_;               // by owner
  std::vector<std::int64_t> bounds_;   // by owner: where its results begin
  std::vector<std::int64_t> rotated_;  // by distance from this owner: where its block begins in staging_
  std::vector<std::int64_t> block_bytes_, block_scratch_;
  Buffer<std::byte> staging_;
  // For one run:
  std::span<std::byte> results_;  // the caller's
  bool works_ = false;            // the body is being called
  Outcome outcome_;               // of this rank's work
  double seconds_work_ = 0;
  AgreementWords agreement_;
};

/// Makes an operator. Collective. `use_seconds`: the time that a rank takes to copy results to their place if others made some.
[[nodiscard]] std::shared_ptr<OperatorImpl> make_operator(std::shared_ptr<CommunicatorState> comm, const OperatorConfig& config,
                                                          std::span<const OperatorPart> parts, double use_seconds = 0);

}  // namespace weir::detail
