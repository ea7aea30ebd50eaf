// The C ABI of schedules: thin shims over weir/schedule.hpp.
#include "schedule.hpp"

#include "plan.hpp"

using namespace weir::capi;

namespace {

template <class Body>
weir_status guard_block(const weir_schedule* schedule, const char* block, Body&& body) noexcept {
  return guard_handle(schedule, [&] {
    need(block != nullptr, "the name of the block is NULL");
    body();
  });
}

}  // namespace

extern "C" {

weir_status weir_schedule_create(weir_comm* comm, const char* const* blocks, int count, weir_schedule** schedule) {
  return make_handle(comm, schedule, [&] {
    need(schedule != nullptr, "the address for the schedule is NULL");
    need(count >= 0, "the number of blocks is negative");
    need(blocks != nullptr || count == 0, "the names of the blocks are NULL");
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      need(blocks[i] != nullptr, "the name of a block is NULL");
      names.emplace_back(blocks[i]);
    }
    return std::unique_ptr<weir_schedule>(new weir_schedule{comm, weir::StepSchedule(std::move(names))});
  });
}

weir_status weir_schedule_destroy(weir_schedule* schedule) { return destroy_handle(schedule); }

weir_status weir_schedule_priority(const weir_schedule* schedule, const char* block, int* priority) {
  return guard_block(schedule, block, [&] {
    need(priority != nullptr, "the address for the priority is NULL");
    *priority = schedule->schedule.priority(block);
  });
}

weir_status weir_schedule_started(weir_schedule* schedule, const char* block, weir_plan* plan) {
  return guard_block(schedule, block, [&] {
    need_alive(plan);
    need(plan->comm == schedule->comm, "the plan is of another communicator than the schedule: make both from the same");
    if (!plan->operation) throw weir::Error(WEIR_ERR_STATE, "the plan has started nothing: call weir_plan_start before");
    schedule->schedule.started(block, *plan->operation);
  });
}

weir_status weir_schedule_test(weir_schedule* schedule, const char* block, int* done) {
  return guard_block(schedule, block, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = schedule->schedule.test(block) ? 1 : 0;
  });
}

weir_status weir_schedule_wait(weir_schedule* schedule, const char* block) {
  return guard_block(schedule, block, [&] { schedule->schedule.wait(block); });
}

weir_status weir_schedule_wait_all(weir_schedule* schedule) {
  return guard_handle(schedule, [&] { schedule->schedule.wait_all(); });
}

weir_status weir_schedule_pending(const weir_schedule* schedule, const char* block, int* operations) {
  return guard_block(schedule, block, [&] {
    need(operations != nullptr, "the address for the number of operations is NULL");
    static_cast<void>(schedule->schedule.priority(block));  // throws if there is no such block
    *operations = 0;
    for (const weir::StepSchedule::Pending& pending : schedule->schedule.pending()) {
      if (pending.block == block) *operations = pending.operations;
    }
  });
}

}  // extern "C"
