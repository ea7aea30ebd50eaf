#include "transport/mpi/shared_windows.hpp"

namespace weir {
namespace {

bool on_all(MPI_Comm comm, bool mine) {
  int all = mine ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_LAND, comm);
  return all != 0;
}

/// The members as a communicator, or MPI_COMM_NULL where MPI says that they do not share memory.
MPI_Comm communicator_of(MPI_Comm comm, std::span<const int> members) {
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm group = MPI_COMM_NULL, sharing = MPI_COMM_NULL;
  MPI_Comm_group(comm, &all);
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &some);
  MPI_Comm_create_group(comm, some, 0, &group);
  MPI_Group_free(&some);
  MPI_Group_free(&all);
  if (group == MPI_COMM_NULL) return MPI_COMM_NULL;
  MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
  int size = 0;
  if (MPI_Comm_split_type(group, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &sharing) == MPI_SUCCESS) {
    MPI_Comm_size(sharing, &size);
    MPI_Comm_free(&sharing);
  }
  if (!on_all(group, size == static_cast<int>(members.size()))) MPI_Comm_free(&group);
  return group;
}

}  // namespace

/// Gives the window back when its plan ends.
class SharedWindows::Lease final : public SharedMemory {
 public:
  Lease(std::shared_ptr<std::vector<Window>> windows, int index)
      : SharedMemory((*windows)[static_cast<std::size_t>(index)].of), windows_(std::move(windows)), index_(index) {
    window().in_use = true;
  }
  ~Lease() override { window().in_use = false; }
  void sync() const override { MPI_Win_sync(window().handle); }

 private:
  [[nodiscard]] Window& window() const { return (*windows_)[static_cast<std::size_t>(index_)]; }
  std::shared_ptr<std::vector<Window>> windows_;
  int index_;
};

std::unique_ptr<SharedMemory> SharedWindows::share(MPI_Comm comm, std::span<const int> members, std::int64_t bytes) {
  if (!tried_) node_ = communicator_of(comm, members);
  tried_ = true;
  if (node_ == MPI_COMM_NULL) return nullptr;
  int index = pick(bytes);
  if (index < 0) index = allocate(bytes);
  if (index < 0) return nullptr;
  return std::make_unique<Lease>(windows_, index);
}

/// The first large window that nobody uses; -1 for none. A plan may have ended on some ranks only, so all must agree.
int SharedWindows::pick(std::int64_t bytes) const {
  for (std::size_t i = 0; i < windows_->size(); ++i) {
    const Window& window = (*windows_)[i];
    if (window.bytes >= bytes && on_all(node_, !window.in_use)) return static_cast<int>(i);
  }
  return -1;
}

int SharedWindows::allocate(std::int64_t bytes) {
  Window window;
  window.bytes = bytes;
  std::byte* mine = nullptr;
  const int status = MPI_Win_allocate_shared(static_cast<MPI_Aint>(bytes), 1, MPI_INFO_NULL, node_, &mine, &window.handle);
  if (!on_all(node_, status == MPI_SUCCESS)) return -1;
  int size = 0;
  MPI_Comm_size(node_, &size);
  for (int member = 0; member < size; ++member) {
    MPI_Aint member_bytes = 0;
    int unit = 0;
    std::byte* memory = nullptr;
    MPI_Win_shared_query(window.handle, member, &member_bytes, &unit, &memory);
    window.of.push_back(memory);
  }
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window.handle);
  windows_->push_back(window);
  return static_cast<int>(windows_->size()) - 1;
}

void SharedWindows::free() {
  for (Window& window : *windows_) {
    MPI_Win_unlock_all(window.handle);
    MPI_Win_free(&window.handle);
  }
  windows_->clear();
  if (node_ != MPI_COMM_NULL) MPI_Comm_free(&node_);
}

}  // namespace weir
