#include "transport/inproc/inproc_transport.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/give_way.hpp"
#include "base/splitmix.hpp"
#include "transport/registry.hpp"

namespace weir {
namespace {

struct Message {
  int from;
  int tag;
  std::int64_t bytes;
  const void* data;
  std::atomic<bool>* taken;
  int delay;
  bool open;
  int copied_by = -1;  ///< slot of the receive whose copy is under way
};

}  // namespace

/// Wakes a rank that has nothing to do.
class Bell {
 public:
  void ring() {
    {
      const std::scoped_lock lock(mutex_);
      rung_ = true;
    }
    rings_.notify_one();
  }
  /// Waits until it rings, or returns at once if it has rung since the last wait. Does not wait long, because there may be
  /// deadlines.
  void wait() {
    // Most messages arrive within microseconds, and sleeping takes several times as long as yielding.
    static Yielding yielding(1);
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (yields_ && !rung_ && yielding.yield() && std::chrono::steady_clock::now() < end) {
    }
    std::unique_lock lock(mutex_);
    yields_ = rings_.wait_for(lock, std::chrono::microseconds(500), [&] { return rung_.load(); });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable rings_;
  std::atomic<bool> rung_ = false;
  bool yields_ = true;  // the last wait ended with a message
};

struct InprocJob::Shared {
  struct Mailbox {
    std::mutex mutex;
    std::vector<Message> messages;
    std::vector<Notice> notices;
    Bell bell;
  };
  Shared(int size, std::uint64_t job_seed, InprocFault job_fault, std::function<std::unique_ptr<InprocCopier>()> job_make_copier)
      : mailboxes(static_cast<std::size_t>(size)), seed(job_seed), fault(job_fault), make_copier(std::move(job_make_copier)) {
    for (Mailbox& box : mailboxes) {
      box.messages.reserve(256);
      box.notices.reserve(16);
    }
  }
  /// Shared memory, by name.
  struct Segments {
    std::mutex mutex;
    int made = 0;
    std::map<std::string, std::shared_ptr<std::byte[]>, std::less<>> memory;
  };
  /// Jobs of subgroups, by the list of ranks and how often these have made one before, until all of its ranks have come.
  struct Subgroups {
    struct Made {
      std::shared_ptr<Shared> job;
      std::size_t came = 0;
    };
    std::mutex mutex;
    std::map<std::pair<std::vector<int>, int>, Made> made;
  };
  std::vector<Mailbox> mailboxes;
  Segments segments;
  Subgroups subgroups;
  std::atomic<bool> taken_in_vain;  ///< of messages whose sender has abandoned them
  std::uint64_t seed;
  InprocFault fault;
  std::function<std::unique_ptr<InprocCopier>()> make_copier;
};

class InprocSegment final : public SharedSegment {
 public:
  InprocSegment(InprocJob::Shared& shared, std::string name, std::shared_ptr<std::byte[]> memory)
      : shared_(shared), name_(std::move(name)), memory_(std::move(memory)) {
    set_data(memory_.get());
  }
  void take_pages(std::int64_t /*offset*/, std::int64_t bytes) override {
    if (taken_ + bytes > shared_.fault.pages_of_segment) fail(WEIR_ERR_MEMORY, "there are no pages for {} bytes", bytes);
    taken_ += bytes;
  }
  void forget_name() noexcept override {
    const std::scoped_lock lock(shared_.segments.mutex);
    if (const auto place = shared_.segments.memory.find(name_); place != shared_.segments.memory.end())
      shared_.segments.memory.erase(place);
  }

 private:
  InprocJob::Shared& shared_;
  std::string name_;
  std::shared_ptr<std::byte[]> memory_;
  std::int64_t taken_ = 0;
};

class InprocTransport final : public Transport, private SharedSegments {
 public:
  InprocTransport(std::shared_ptr<InprocJob::Shared> shared, int rank, std::pair<int, int> rank_and_size_of_job)
      : Transport(rank, static_cast<int>(shared->mailboxes.size())),
        job_(std::move(shared)),
        shared_(*job_),
        rank_and_size_of_job_(rank_and_size_of_job),
        copier_(shared_.make_copier ? shared_.make_copier() : nullptr) {}

  ~InprocTransport() override {
    for (int i = 0; i < static_cast<int>(destination_.size()); ++i) abandon_slot(i);
    for (int peer = 0; peer < size(); ++peer) {  // abandoned sends are read no longer than this transport lives
      auto& box = shared_.mailboxes[static_cast<std::size_t>(peer)];
      const std::scoped_lock lock(box.mutex);
      std::erase_if(box.messages, [&](const Message& m) { return m.from == rank() && m.taken == &shared_.taken_in_vain; });
    }
  }

  [[nodiscard]] int job_rank() const override { return rank_and_size_of_job_.first; }
  [[nodiscard]] int job_size() const override { return rank_and_size_of_job_.second; }
  [[nodiscard]] std::string name() const override { return "inproc"; }
  [[nodiscard]] int max_tag() const override { return shared_.fault.max_tag; }
  [[nodiscard]] std::unique_ptr<Transport> subgroup(std::span<const int> ranks) override {
    const std::vector<int> list(ranks.begin(), ranks.end());
    const auto place_of = [&](int rank) {
      const auto place = std::find(list.begin(), list.end(), rank);
      return place == list.end() ? -1 : static_cast<int>(place - list.begin());
    };
    std::shared_ptr<InprocJob::Shared> job;
    {
      auto& subgroups = shared_.subgroups;
      const std::scoped_lock lock(subgroups.mutex);
      const std::pair key(list, subgroups_made_[list]++);
      auto& made = subgroups.made[key];
      if (!made.job) {
        InprocFault fault = shared_.fault;
        fault.rank = place_of(fault.rank);
        fault.no_segments_on = place_of(fault.no_segments_on);
        made.job = std::make_shared<InprocJob::Shared>(static_cast<int>(list.size()), shared_.seed, fault, shared_.make_copier);
      }
      job = made.job;
      if (++made.came == list.size()) subgroups.made.erase(key);
    }
    return std::make_unique<InprocTransport>(std::move(job), place_of(rank()), rank_and_size_of_job_);
  }
  [[nodiscard]] DevicePath device_path(GpuPointers /*setting*/) const override {
    if (copier_) return {true, "direct: virtual ranks copy on the GPU"};
    return {false, "staged through pinned memory: virtual ranks copy on the host"};
  }
  [[nodiscard]] SharedSegments* shared_segments() noexcept override { return this; }
  void notify(const Notice& notice) noexcept override {
    if (silent()) return;
    for (int peer = 0; peer < size(); ++peer) {
      if (peer == rank()) continue;
      auto& box = shared_.mailboxes[static_cast<std::size_t>(peer)];
      const std::scoped_lock lock(box.mutex);
      if (box.notices.size() < box.notices.capacity()) box.notices.push_back(notice);
      box.bell.ring();
    }
  }
  [[nodiscard]] bool receive_notice(Notice& notice) override {
    auto& box = shared_.mailboxes[static_cast<std::size_t>(rank())];
    const std::scoped_lock lock(box.mutex);
    if (silent() || box.notices.empty()) return false;
    notice = box.notices.front();
    box.notices.erase(box.notices.begin());
    return true;
  }
  void idle() noexcept override { shared_.mailboxes[static_cast<std::size_t>(rank())].bell.wait(); }

 private:
  struct Destination {
    void* data = nullptr;
    std::uint64_t post = 0;
    Completion* copied = nullptr;  // the copy under way, if any
  };

  [[nodiscard]] bool silent() const { return rank() == shared_.fault.rank && sent_ >= shared_.fault.after; }

  [[nodiscard]] std::int64_t room() const override { return shared_.fault.shared_memory_room; }
  [[nodiscard]] std::unique_ptr<SharedSegment> make_segment(std::int64_t bytes, SegmentName& name) override {
    auto memory = std::make_shared<std::byte[]>(static_cast<std::size_t>(bytes));
    const std::scoped_lock lock(shared_.segments.mutex);
    const std::string text = fmt::format("segment {}", ++shared_.segments.made);
    shared_.segments.memory.emplace(text, memory);
    name = {};
    text.copy(name.data(), name.size() - 1);
    return std::make_unique<InprocSegment>(shared_, text, std::move(memory));
  }
  [[nodiscard]] std::unique_ptr<SharedSegment> open_segment(std::string_view name, std::int64_t bytes) override {
    if (shared_.fault.no_segments_on == rank()) fail(WEIR_ERR_MEMORY, "{} bytes of shared memory cannot be opened", bytes);
    const std::scoped_lock lock(shared_.segments.mutex);
    return std::make_unique<InprocSegment>(shared_, std::string(name), shared_.segments.memory.find(name)->second);
  }

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
    box.messages.push_back({rank(), s.tag, s.bytes, data, &taken, delay, s.open});
    box.bell.ring();
  }

  void post_receive(int index, void* data) override {
    destination_[static_cast<std::size_t>(index)] = {data, next_post_++, nullptr};
  }

  bool test_slot(int index) override {
    const Slot& s = slot(index);
    if (s.kind == Kind::send) return taken_[static_cast<std::size_t>(index)].load(std::memory_order_acquire);
    if (silent() || !first_of_its_kind(index)) return false;
    deliver_late();
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
      box.bell.ring();
      return false;
    }
    if (s.open != message->open) fail(WEIR_ERR_INTERNAL, "tag {}: send_open() and receive_up_to() belong together", s.tag);
    if (!s.takes(message->bytes)) {
      fail(WEIR_ERR_TRANSPORT, "rank {} sent {} bytes under tag {} where {} were agreed", s.peer, message->bytes, s.tag, s.bytes);
    }
    if (destination.copied == nullptr && message->bytes > 0) {
      if (copier_) destination.copied = copier_->copy(destination.data, message->data, message->bytes);
      if (destination.copied != nullptr)
        message->copied_by = index;
      else
        std::memcpy(destination.data, message->data, static_cast<std::size_t>(message->bytes));
    }
    if (destination.copied != nullptr && !destination.copied->reached()) return false;
    destination.copied = nullptr;
    message->taken->store(true, std::memory_order_release);
    shared_.mailboxes[static_cast<std::size_t>(message->from)].bell.ring();
    box.messages.erase(message);
    return true;
  }

  // Receives of one peer and tag match in the order posted, even if a later one is tested first.
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

  void abandon_slot(int index) noexcept override {
    const Slot& s = slot(index);
    if (s.kind == Kind::receive) {
      Destination& destination = destination_[static_cast<std::size_t>(index)];
      abandon_copy(destination, index);
      if (shared_.fault.late) late_.push_back({destination.data, s});
    }
    if (s.kind != Kind::send) return;
    auto& box = shared_.mailboxes[static_cast<std::size_t>(s.peer)];
    const std::scoped_lock lock(box.mutex);
    const auto mine = [&](const Message& m) { return m.taken == &taken_[static_cast<std::size_t>(index)]; };
    if (!shared_.fault.late) {
      std::erase_if(box.messages, mine);
      return;
    }
    for (Message& message : box.messages) {
      if (mine(message)) message.taken = &shared_.taken_in_vain;
    }
  }

  /// Delivers messages to abandoned receives, as MPI does if it has matched them before.
  void deliver_late() {
    for (std::size_t i = 0; i < late_.size();) {
      const Late& late = late_[i];
      auto& box = shared_.mailboxes[static_cast<std::size_t>(rank())];
      const std::scoped_lock lock(box.mutex);
      const auto message = std::find_if(box.messages.begin(), box.messages.end(), [&](const Message& m) {
        return m.from == late.slot.peer && m.tag == late.slot.tag && late.slot.takes(m.bytes);
      });
      if (message == box.messages.end()) {
        ++i;
        continue;
      }
      if (message->bytes > 0) std::memcpy(late.data, message->data, static_cast<std::size_t>(message->bytes));
      message->taken->store(true, std::memory_order_release);
      shared_.mailboxes[static_cast<std::size_t>(message->from)].bell.ring();
      box.messages.erase(message);
      late_.erase(late_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

  /// Waits for the copy to end, because nothing can stop it. The message stays in the mailbox.
  void abandon_copy(Destination& destination, int index) noexcept {
    if (destination.copied == nullptr) return;
    while (!destination.copied->reached()) give_way();
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

  std::shared_ptr<InprocJob::Shared> job_;
  InprocJob::Shared& shared_;
  std::pair<int, int> rank_and_size_of_job_;
  std::map<std::vector<int>, int> subgroups_made_;  // by the list of their ranks
  /// An abandoned receive.
  struct Late {
    void* data;
    Slot slot;
  };

  std::int64_t sent_ = 0;
  std::vector<Late> late_;
  std::uint64_t next_post_ = 0;
  std::deque<std::atomic<bool>> taken_;
  std::vector<Destination> destination_;
  std::unique_ptr<InprocCopier> copier_;
};

InprocJob::InprocJob(int size, std::uint64_t seed, InprocFault fault, std::function<std::unique_ptr<InprocCopier>()> make_copier)
    : shared_(std::make_shared<Shared>(size, seed, fault, std::move(make_copier))) {}
InprocJob::~InprocJob() = default;

std::unique_ptr<Transport> InprocJob::transport(int rank) {
  return std::make_unique<InprocTransport>(shared_, rank, std::pair(rank, static_cast<int>(shared_->mailboxes.size())));
}

const TransportRow transport_inproc{
    .name = "inproc", .description = "virtual ranks, threads of one process", .shared_segments = true, .gpu_memory = true};

}  // namespace weir
