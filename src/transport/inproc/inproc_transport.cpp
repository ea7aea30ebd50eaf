#include "transport/inproc/inproc_transport.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.hpp"
#include "base/splitmix.hpp"

namespace weir {
namespace {

struct Message {
  int from;
  int tag;
  std::int64_t bytes;
  const void* data;
  std::atomic<bool>* taken;
  int delay;
  int copied_by = -1;  ///< slot of the receive that is on it
};

}  // namespace

struct InprocJob::Shared {
  struct Mailbox {
    std::mutex mutex;
    std::vector<Message> messages;
  };
  Shared(int size, std::uint64_t job_seed, InprocFault job_fault, std::function<std::unique_ptr<InprocCopier>()> job_make_copier)
      : mailboxes(static_cast<std::size_t>(size)), seed(job_seed), fault(job_fault), make_copier(std::move(job_make_copier)) {
    for (Mailbox& box : mailboxes) box.messages.reserve(64);
  }
  /// Memory of the ranks of one group, by the group's first rank and the number of its call.
  struct Pool {
    std::mutex mutex;
    std::condition_variable complete;
    std::map<std::pair<int, int>, std::map<int, std::shared_ptr<std::byte[]>>> memory;
  };
  std::vector<Mailbox> mailboxes;
  Pool pool;
  std::uint64_t seed;
  InprocFault fault;
  std::function<std::unique_ptr<InprocCopier>()> make_copier;
};

class InprocMemory final : public SharedMemory {
 public:
  explicit InprocMemory(const std::map<int, std::shared_ptr<std::byte[]>>& memory)
      : SharedMemory(pointers(memory)), memory_(memory) {}
  void sync() const override {}  // whoever is told has taken a lock since

 private:
  static std::vector<std::byte*> pointers(const std::map<int, std::shared_ptr<std::byte[]>>& memory) {
    std::vector<std::byte*> list;
    for (const auto& [rank, bytes] : memory) list.push_back(bytes.get());
    return list;
  }
  std::map<int, std::shared_ptr<std::byte[]>> memory_;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(InprocJob::Shared& shared, int rank)
      : Transport(rank, static_cast<int>(shared.mailboxes.size())),
        shared_(shared),
        copier_(shared.make_copier ? shared.make_copier() : nullptr) {}

  ~InprocTransport() override {
    for (int i = 0; i < static_cast<int>(destination_.size()); ++i) abandon_slot(i);
  }

  [[nodiscard]] std::string name() const override { return "inproc"; }
  [[nodiscard]] int max_tag() const override { return 1 << 30; }
  [[nodiscard]] DevicePath device_path(CudaAwareMpi /*setting*/) const override {
    if (copier_) return {true, "direct: virtual ranks copy on the GPU"};
    return {false, "staged through pinned memory: virtual ranks copy on the host"};
  }
  std::unique_ptr<SharedMemory> share(std::span<const int> members, std::int64_t bytes) override {
    std::unique_lock lock(shared_.pool.mutex);
    auto& memory = shared_.pool.memory[{members.front(), shared_so_far_++}];
    memory[rank()] = std::make_shared<std::byte[]>(static_cast<std::size_t>(bytes));
    shared_.pool.complete.notify_all();
    shared_.pool.complete.wait(lock, [&] { return memory.size() == members.size(); });
    return std::make_unique<InprocMemory>(memory);
  }

 private:
  struct Destination {
    void* data = nullptr;
    std::uint64_t post = 0;
    Happening* copied = nullptr;  // under way
  };

  [[nodiscard]] bool silent() const { return rank() == shared_.fault.rank && sent_ >= shared_.fault.after; }

  void post_send(int index, const void* data) override {
    std::atomic<bool>& taken = taken_[static_cast<std::size_t>(index)];
    taken.store(silent(), std::memory_order_relaxed);
    if (silent()) return;
    const Slot& s = slot(index);
    const std::uint64_t noise =
        splitmix64(shared_.seed ^ splitmix64((static_cast<std::uint64_t>(rank()) << 40) ^ static_cast<std::uint64_t>(sent_)));
    const int delay = shared_.seed == 0 ? 0 : static_cast<int>(noise % 4);
    ++sent_;
    auto& box = shared_.mailboxes[static_cast<std::size_t>(s.peer)];
    const std::scoped_lock lock(box.mutex);
    box.messages.push_back({rank(), s.tag, s.bytes, data, &taken, delay});
  }

  void post_receive(int index, void* data) override {
    destination_[static_cast<std::size_t>(index)] = {data, next_post_++, nullptr};
  }

  bool test_slot(int index) override {
    const Slot& s = slot(index);
    if (s.kind == Kind::send) return taken_[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
    if (silent() || !first_of_its_kind(index)) return false;
    auto& box = shared_.mailboxes[static_cast<std::size_t>(rank())];
    const std::scoped_lock lock(box.mutex);
    Destination& destination = destination_[static_cast<std::size_t>(index)];
    const int copied_by = destination.copied != nullptr ? index : -1;
    const auto message = std::find_if(box.messages.begin(), box.messages.end(), [&](const Message& m) {
      return m.from == s.peer && m.tag == s.tag && m.copied_by == copied_by;
    });
    if (message == box.messages.end()) return false;
    if (message->delay > 0) {
      --message->delay;
      return false;
    }
    if (message->bytes != s.bytes) {
      fail(WEIR_ERR_TRANSPORT, "rank {} sent {} bytes under tag {} where {} were agreed", s.peer, message->bytes, s.tag, s.bytes);
    }
    if (destination.copied == nullptr && s.bytes > 0) {
      if (copier_) destination.copied = copier_->copy(destination.data, message->data, s.bytes);
      if (destination.copied != nullptr)
        message->copied_by = index;
      else
        std::memcpy(destination.data, message->data, static_cast<std::size_t>(s.bytes));
    }
    if (destination.copied != nullptr && !destination.copied->happened()) return false;
    destination.copied = nullptr;
    message->taken->store(true, std::memory_order_release);
    box.messages.erase(message);
    return true;
  }

  // Receives of one peer and tag match in the order posted, also when a later one is tested first.
  [[nodiscard]] bool first_of_its_kind(int index) const {
    const Slot& mine = slot(index);
    const std::uint64_t my_post = destination_[static_cast<std::size_t>(index)].post;
    for (int i = 0; i < static_cast<int>(destination_.size()); ++i) {
      const Slot& other = slot(i);
      if (other.kind == Kind::receive && other.peer == mine.peer && other.tag == mine.tag &&
          destination_[static_cast<std::size_t>(i)].post < my_post)
        return false;
    }
    return true;
  }

  void abandon_slot(int index) override {
    const Slot& s = slot(index);
    if (s.kind == Kind::receive) return abandon_copy(destination_[static_cast<std::size_t>(index)], index);
    if (s.kind != Kind::send) return;
    auto& box = shared_.mailboxes[static_cast<std::size_t>(s.peer)];
    const std::scoped_lock lock(box.mutex);
    std::erase_if(box.messages, [&](const Message& m) { return m.taken == &taken_[static_cast<std::size_t>(index)]; });
  }

  /// The copy ends, since nothing can stop it; the message is there as before.
  void abandon_copy(Destination& destination, int index) {
    if (destination.copied == nullptr) return;
    while (!destination.copied->happened()) std::this_thread::yield();
    destination.copied = nullptr;
    auto& box = shared_.mailboxes[static_cast<std::size_t>(rank())];
    const std::scoped_lock lock(box.mutex);
    for (Message& message : box.messages) {
      if (message.copied_by == index) message.copied_by = -1;
    }
  }

  void grow(int slots) override {
    while (static_cast<int>(taken_.size()) < slots) taken_.emplace_back(false);
    destination_.resize(static_cast<std::size_t>(slots));
  }

  InprocJob::Shared& shared_;
  std::int64_t sent_ = 0;
  int shared_so_far_ = 0;
  std::uint64_t next_post_ = 0;
  std::deque<std::atomic<bool>> taken_;
  std::vector<Destination> destination_;
  std::unique_ptr<InprocCopier> copier_;
};

InprocJob::InprocJob(int size, std::uint64_t seed, InprocFault fault, std::function<std::unique_ptr<InprocCopier>()> make_copier)
    : shared_(std::make_unique<Shared>(size, seed, fault, std::move(make_copier))) {}
InprocJob::~InprocJob() = default;

std::unique_ptr<Transport> InprocJob::transport(int rank) { return std::make_unique<InprocTransport>(*shared_, rank); }

}  // namespace weir
