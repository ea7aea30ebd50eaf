#include <algorithm>
#include <weir/schedule.hpp>

#include "base/error.hpp"

namespace weir {

StepSchedule::StepSchedule(std::vector<std::string> blocks_in_forward_order) {
  for (std::string& name : blocks_in_forward_order) {
    require(std::none_of(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.name == name; }),
            "two blocks are called '{}': names must differ", name);
    blocks_.push_back({std::move(name), {}});
  }
}

std::size_t StepSchedule::index_of(std::string_view block) const {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& b) { return b.name == block; });
  if (found != blocks_.end()) return static_cast<std::size_t>(found - blocks_.begin());
  std::string known;
  for (const Block& b : blocks_) known += (known.empty() ? "" : ", ") + b.name;
  fail(WEIR_ERR_ARGUMENT, "there is no block '{}': the blocks are {}", block, known);
}

std::vector<std::string_view> StepSchedule::blocks() const {
  std::vector<std::string_view> names;
  for (const Block& block : blocks_) names.push_back(block.name);
  return names;
}

int StepSchedule::priority(std::string_view block) const { return static_cast<int>(blocks_.size() - index_of(block)); }

void StepSchedule::started(std::string_view block, Operation operation) {
  blocks_[index_of(block)].operations.push_back(std::move(operation));
}

bool StepSchedule::test(std::string_view block) {
  std::vector<Operation>& operations = blocks_[index_of(block)].operations;
  for (std::size_t i = operations.size(); i-- > 0;) {
    if (operations[i].test()) operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return operations.empty();
}

void StepSchedule::wait(std::string_view block) {
  std::vector<Operation>& operations = blocks_[index_of(block)].operations;
  while (!operations.empty()) {
    Operation last = std::move(operations.back());
    operations.pop_back();
    last.wait();
  }
}

void StepSchedule::wait_all() {
  for (const Block& block : blocks_) wait(block.name);
}

std::vector<StepSchedule::Pending> StepSchedule::pending() const {
  std::vector<Pending> list;
  for (const Block& block : blocks_) {
    if (!block.operations.empty()) list.push_back({block.name, priority(block.name), static_cast<int>(block.operations.size())});
  }
  return list;
}

}  // namespace weir
