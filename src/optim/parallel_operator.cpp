#include "optim/parallel_operator.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/config_check.hpp"
#include "base/error.hpp"
#include "base/fingerprint.hpp"
#include "base/log.hpp"
#include "collectives/allgatherv.hpp"
#include "collectives/control.hpp"
#include "communicator/config_card.hpp"
#include "communicator/input_error.hpp"

namespace weir::detail {

using namespace weir::optim;

namespace {

constexpr std::int64_t most_parts = std::int64_t{1} << 24, most_bytes = std::int64_t{1} << 46;

void check_parts(std::span<const OperatorPart> parts) {
  require(std::ssize(parts) <= most_parts, "there are {} parts: at most {} can be divided", parts.size(), most_parts);
  double bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const OperatorPart& part = parts[i];
    require(part.seconds >= 0 && part.seconds <= 1e9, "part {}: seconds is {}: it must be from 0 to 1e9", i, part.seconds);
    require(part.result_bytes >= 0, "part {}: result_bytes is {}: it must be at least 0", i, part.result_bytes);
    bytes += static_cast<double>(part.result_bytes);
  }
  require(bytes <= static_cast<double>(most_bytes), "results have {} bytes together: at most {} can be gathered", bytes,
          most_bytes);
}

std::string fingerprint(std::span<const OperatorPart> parts) {
  Fingerprint all;
  for (const OperatorPart& part : parts) {
    all.add(std::bit_cast<std::uint64_t>(part.seconds + 0.0));
    all.add(static_cast<std::uint64_t>(part.result_bytes));
  }
  return fmt::format("{} parts, {:016x}", parts.size(), all.value());
}

ConfigCard card_of(const OperatorConfig& config, std::span<const OperatorPart> parts) {
  ConfigCard card;
  card.outcome = outcome_of([&] {
    check_fields(config);
    check_parts(parts);
    card.set_texts({fingerprint(parts)});
    set_fields(card, config);
  });
  return card;
}

/// Returns the division that is predicted to end first; among equals, the one that sends less.
OperatorChoice planned(CommunicatorState& comm, const OperatorConfig& config, std::span<const OperatorPart> parts,
                       double use_seconds) {
  constexpr std::array divisions = {OperatorDivision::replicated, OperatorDivision::node, OperatorDivision::all};
  constexpr std::array words = {"by every rank", "among the ranks of each node", "among all ranks"};
  const Problem ranks = make_problem(comm.topology, 1, 1);
  OperatorChoice plan{config, {}, {}};
  std::string predicted;
  for (std::size_t i = 0; i < divisions.size(); ++i) {
    OperatorCost cost = cost_of(comm.agreed_machine().machine, ranks, parts, config.variable, divisions[i]);
    if (divisions[i] != OperatorDivision::replicated) cost.gather += use_seconds;
    predicted += fmt::format("{}{} {:.3f} ms, of which gathering {:.3f} ms", i == 0 ? "" : "; ", words[i], cost.seconds() * 1e3,
                             cost.gather * 1e3);
    const bool better = i == 0 || cost.seconds() < plan.predicted.seconds();
    if (config.division == OperatorDivision::automatic ? !better : config.division != divisions[i]) continue;
    plan.config.division = divisions[i];
    plan.predicted = cost;
  }
  const auto chosen =
      static_cast<std::size_t>(std::find(divisions.begin(), divisions.end(), plan.config.division) - divisions.begin());
  plan.explanation = fmt::format("{} parts are worked on {}{}; predicted: {}\n", parts.size(), words[chosen],
                                 config.division == OperatorDivision::automatic ? "" : ", as configured", predicted);
  return plan;
}

}  // namespace

OperatorImpl::OperatorImpl(std::shared_ptr<CommunicatorState> communicator, OperatorChoice plan, Lease lease,
                           std::span<const OperatorPart> described)
    : AsynchronousCall(std::move(communicator), plan.config.name, plan.config.priority, lease.tag()),
      config(plan.config),
      predicted(plan.predicted),
      explanation(std::move(plan.explanation)),
      parts(described.begin(), described.end()),
      offsets(parts.size() + 1),
      sizes(parts.size()),
      lease_(std::move(lease)) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    offsets[i + 1] = offsets[i] + parts[i].result_bytes;
    sizes[i] = config.variable ? 0 : parts[i].result_bytes;
  }
  run.algorithm = "parallel_operator";
  run.element_type = "byte";
  run.count = offsets.back();
  if (config.division == OperatorDivision::all) {
    owners_.resize(static_cast<std::size_t>(comm->topology.size()));
    std::iota(owners_.begin(), owners_.end(), 0);
  } else if (config.division == OperatorDivision::node) {
    owners_.assign(comm->topology.node_peers().begin(), comm->topology.node_peers().end());
  } else {
    owners_ = {comm->topology.rank()};
  }
  begins_ = balanced(parts, static_cast<int>(owners_.size()));
  me_ = static_cast<std::size_t>(std::find(owners_.begin(), owners_.end(), comm->topology.rank()) - owners_.begin());
  if (owners_.size() == 1) return;
  for (const std::size_t begin : begins_) bounds_.push_back(offsets[begin]);
  rotated_.resize(owners_.size() + 1);
  block_bytes_.resize(config.variable ? owners_.size() : 0);
  block_scratch_.resize(block_bytes_.size());
  if (config.variable || !uses_ring())
    staging_ = Buffer<std::byte>(offsets.back() + (config.variable ? std::ssize(parts) : std::ssize(owners_)) * word_bytes);
}

void OperatorImpl::check_part(int part) const {
  require(part >= 0 && part < std::ssize(parts), "operator '{}': there is no part {}: they are numbered 0 to {}", config.name, part,
          std::ssize(parts) - 1);
}

void OperatorImpl::start(const Outcome& ahead, const OperatorBody& body, std::span<std::byte> results) {
  if (works_) fail(WEIR_ERR_BUSY, "'{}' is running: its body cannot start it again", config.name);
  check_startable();
  results_ = results;
  outcome_ = ahead;
  if (!ahead.failed())
    outcome_ = outcome_of([&] {
      require(std::ssize(results) == offsets.back(), "operator '{}', rank {}: there are {} bytes for results: they take {}",
              config.name, comm->topology.rank(), results.size(), offsets.back());
      require(results.data() != nullptr || results.empty(), "operator '{}', rank {}: the address for results is null{}",
              config.name, comm->topology.rank(), refused_by_binding);
      require(body != nullptr, "operator '{}', rank {}: there is no body: give a function that works on a part", config.name,
              comm->topology.rank());
      works_ = true;
      work(body);
    });
  works_ = false;
  launch([&] { return exchange(); });
}

void OperatorImpl::refuse(std::string_view why) {
  Outcome refused;
  refused.set_formatted(WEIR_ERR_ARGUMENT, "operator '{}', rank {}: {}", config.name, comm->topology.rank(), why);
  start(refused, {}, {});
}

void OperatorImpl::work(const OperatorBody& body) {
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = begins_[me_]; i < begins_[me_ + 1]; ++i) {
    const std::int64_t most = parts[i].result_bytes;
    const std::span<std::byte> place = results_.subspan(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(most));
    const std::int64_t bytes = body(static_cast<int>(i), place);
    require(bytes == most || (config.variable && bytes >= 0 && bytes < most),
            "operator '{}', part {}: its body returned {} bytes: it must be {}{}", config.name, i, bytes,
            config.variable ? "from 0 to " : "", most);
    sizes[i] = bytes;
  }
  seconds_work_ = std::chrono::duration<double>(Clock::now() - begin).count();
}

task<void> OperatorImpl::exchange() {
  const StageScope stage = channel().stage(Stage::communicate);
  if (!carries_outcome()) co_await agree_on_outcome(channel(), outcome_, agreement_);
  if (owners_.size() == 1) co_return;
  const Channel group = channel().group(owners_);
  if (config.variable)
    co_await gather_variable(group);
  else if (uses_ring())
    co_await allgatherv_ring_in_place(group, bounds_, results_.data());
  else
    co_await gather_staged(group);
}

/// Gathers by Bruck's algorithm, through memory in which owners are ordered by their distance from this one. A block has a word
/// that says how work went (0: well), if blocks say so, and the owner's results.
task<void> OperatorImpl::gather_staged(Channel group) {
  const StageScope stage = group.stage(Stage::allgatherv);
  const std::size_t owners = owners_.size();
  const std::int64_t head = carries_outcome() ? word_bytes : 0;
  for (std::size_t i = 0; i < owners; ++i) {
    const std::size_t owner = (me_ + i) % owners;
    rotated_[i + 1] = rotated_[i] + head + bounds_[owner + 1] - bounds_[owner];
  }
  const auto begin = [&](std::size_t owner) { return results_.data() + bounds_[owner]; };
  const std::uint64_t failed = outcome_.failed() ? 1 : 0;
  std::memcpy(staging_.data(), &failed, static_cast<std::size_t>(head));
  if (failed == 0)
    std::copy_n(begin(me_), rotated_[1] - head, staging_.data() + head);
  else
    std::fill_n(staging_.data() + head, rotated_[1] - head, std::byte{});
  co_await allgatherv(group, rotated_, staging_.data());
  if (head > 0) {
    const int lowest = lowest_failed();
    if (lowest >= 0) co_await throw_outcome_of(channel(), lowest, outcome_, agreement_);
  }
  co_await channel().caller();
  for (std::size_t i = 1; i < owners && !run.owner_gone; ++i)
    std::copy_n(staging_.data() + rotated_[i] + head, rotated_[i + 1] - rotated_[i] - head, begin((me_ + i) % owners));
}

/// Returns the lowest failed rank by the words in staging_; -1 if no rank has failed.
int OperatorImpl::lowest_failed() const {
  for (std::size_t owner = 0; owner < owners_.size(); ++owner) {
    std::uint64_t failed = 0;
    std::memcpy(&failed, staging_.data() + rotated_[(owner + owners_.size() - me_) % owners_.size()], sizeof failed);
    if (failed != 0) return owners_[owner];
  }
  return -1;
}

/// Gathers blocks of variable size. A block has the sizes of the owner's results, then the results without gaps.
task<void> OperatorImpl::gather_variable(Channel group) {
  const StageScope stage = group.stage(Stage::allgatherv);
  const std::size_t owners = owners_.size();
  std::byte* end = staging_.data();
  const auto put = [&](const void* from, std::int64_t bytes) {
    end = std::copy_n(static_cast<const std::byte*>(from), bytes, end);
  };
  const std::size_t first = begins_[me_], last = begins_[me_ + 1];
  if (first < last) put(&sizes[first], static_cast<std::int64_t>(last - first) * word_bytes);
  for (std::size_t i = first; i < last; ++i) put(results_.data() + offsets[i], sizes[i]);
  const std::int64_t mine = end - staging_.data();
  co_await allgather_control(group, reinterpret_cast<const std::byte*>(&mine), sizeof mine,
                             reinterpret_cast<std::byte*>(block_bytes_.data()),
                             reinterpret_cast<std::byte*>(block_scratch_.data()));
  for (std::size_t i = 0; i < owners; ++i) rotated_[i + 1] = rotated_[i] + block_bytes_[(me_ + i) % owners];
  if (rotated_[owners] >= ring_from_bytes)
    co_await allgatherv_ring(group, rotated_, staging_.data());
  else
    co_await allgatherv(group, rotated_, staging_.data());
  co_await channel().caller();
  for (std::size_t i = 1; i < owners && !run.owner_gone; ++i) unpack(staging_.data() + rotated_[i], (me_ + i) % owners);
}

void OperatorImpl::unpack(const std::byte* block, std::size_t owner) {
  const std::size_t first = begins_[owner], last = begins_[owner + 1];
  if (first == last) return;
  std::memcpy(&sizes[first], block, (last - first) * sizeof sizes[0]);
  block += (last - first) * sizeof sizes[0];
  for (std::size_t i = first; i < last; ++i) {
    std::copy_n(block, sizes[i], results_.data() + offsets[i]);
    block += sizes[i];
  }
}

void OperatorImpl::completed() {
  statistics.runs += 1;
  statistics.seconds_work = seconds_work_;
  statistics.seconds_gather = run.seconds_in<Stage::communicate>();
  statistics.bytes_sent = traffic.bytes_sent;
  statistics.bytes_received = traffic.bytes_received;
  statistics.messages_sent = traffic.messages_sent;
  statistics.messages_received = traffic.messages_received;
}

std::shared_ptr<OperatorImpl> make_operator(std::shared_ptr<CommunicatorState> comm, const OperatorConfig& config,
                                            std::span<const OperatorPart> parts, double use_seconds) {
  Lease lease = open_agreed(*comm, card_of(config, parts), {"operator", card_fields<OperatorConfig>(), {"its parts"}}, config.name);
  static_cast<void>(comm->agreed_machine());
  std::shared_ptr<OperatorImpl> made;
  comm->agree("making an operator", "operator", config.name, [&] {
    made = std::make_shared<OperatorImpl>(comm, planned(*comm, config, parts, use_seconds), std::move(lease), parts);
  });
  log(comm->settings.log, LogLevel::info, "rank {}: operator '{}': {}", comm->topology.rank(), config.name, made->explanation);
  return made;
}

}  // namespace weir::detail
