#include "communicator/leases.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "communicator/communicator.hpp"

namespace weir::detail {

Lease::~Lease() {
  if (leases_ != nullptr) leases_->released_.push_back(number_);
}
int Lease::lane() const { return leases_->record(*this).lane; }
SharedMemory Lease::memory() const { return leases_->memory_.memory(leases_->record(*this).block); }

void Leases::prepare(int max_tag, int more) {
  const auto reserve = [](auto& list, std::size_t most) {
    if (list.capacity() < most) list.reserve(2 * most);
  };
  const std::size_t most = records_.size() + static_cast<std::size_t>(more);
  if (free_.size() < static_cast<std::size_t>(more) && static_cast<std::int64_t>(most - free_.size()) * Lease::tags > max_tag)
    fail(WEIR_ERR_STATE, "{} plans and tables are alive on this communicator: there are no tags for more; destroy some",
         records_.size());
  reserve(records_, most);
  reserve(free_, most);
  reserve(free_lanes_, most);
  reserve(released_, most);
  memory_.prepare();
}

Leases::Returned Leases::returned() noexcept {
  Returned returned;
  while (!released_.empty() && returned.count < static_cast<std::int32_t>(returned.numbers.size())) {
    returned.numbers[static_cast<std::size_t>(returned.count++)] = released_.back();
    released_.pop_back();
  }
  return returned;
}

void Leases::collect(const Returned& returned) noexcept {
  for (const std::int32_t number : std::span(returned.numbers).first(static_cast<std::size_t>(returned.count))) {
    Record& record = records_[static_cast<std::size_t>(number)];
    if (++record.given_back < ranks_) continue;
    if (record.lane >= 0) free_lanes_.push_back(record.lane);
    memory_.give_back(record.block);
    record = {};
    free_.push_back(number);
  }
}

Lease Leases::take() noexcept {
  if (free_.empty()) {
    records_.push_back({});
    return {this, static_cast<int>(records_.size()) - 1};
  }
  const int number = free_.back();
  free_.pop_back();
  return {this, number};
}

void Leases::add_lane(CommunicatorState& comm, const Lease& lease) {
  if (free_lanes_.empty()) {
    int lane = -1;
    comm.agree("opening a lane", "communicator", "of the transport's own allreduce",
               [&] { lane = comm.transport->native_allreduce()->open_lane(); });
    free_lanes_.push_back(lane);
  }
  record(lease).lane = free_lanes_.back();
  free_lanes_.pop_back();
}

Outcome Leases::add_memory(CommunicatorState& comm, const Lease& lease, std::int64_t bytes) {
  Outcome why;
  record(lease).block = memory_.take(comm, bytes, why);
  return why;
}

SharedMemory Leases::take_memory(CommunicatorState& comm, std::int64_t bytes) {
  Outcome why;
  return memory_.memory(memory_.take(comm, bytes, why));
}

}  // namespace weir::detail
