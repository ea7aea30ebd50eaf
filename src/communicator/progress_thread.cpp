#include "communicator/progress_thread.hpp"

#include <chrono>

#include "base/blocked_signals.hpp"
#include "base/give_way.hpp"
#include "topology/cores.hpp"

namespace weir::detail {
namespace {

/// The time between polls that move nothing, on a core that other threads compute on.
constexpr std::chrono::microseconds pause{50};

/// Held by the one thread that polls a library that has an end of its own. MPICH (4.0 to 4.2) turns its locks off when MPI_Finalize
/// begins, before it calls any hook. Two threads would then be in MPICH at once, or one would wait for the other for ever.
std::mutex polls_library;

}  // namespace

ProgressThread::ProgressThread(Engine& engine, int core, End end)
    : engine_(engine), pinned_(core >= 0), shares_library_(end == End::messages) {
  at_end_.emplace(
      end, [this] { stop(); }, nullptr);
  const BlockedSignals blocked;  // the program's own threads handle signals
  thread_ = std::thread([this, core] { loop(core); });
}

ProgressThread::~ProgressThread() {
  at_end_.reset();
  {
    const std::scoped_lock lock(door_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ProgressThread::enter() {
  ++wanting_;
  door_.lock();
  --wanting_;
  ++depth_;
}

void ProgressThread::leave() noexcept {
  const bool wakes = --depth_ == 0 && sleeps_ && engine_.has_aside();
  door_.unlock();
  if (wakes) wake_.notify_one();
}

/// Stops polling. The calling thread may be inside, or the process may end while another thread is inside. So this does not wait
/// for the lock, only for the poll under way; not even for that if the poll itself ends the process.
void ProgressThread::stop() noexcept {
  ends_ = true;
  while (polls_ && std::this_thread::get_id() != thread_.get_id()) std::this_thread::yield();
}

void ProgressThread::loop(int core) {
  if (core >= 0) static_cast<void>(bind_this_thread(core));  // without its core the thread is slower, not wrong
  const StandardFloatingPoint standard;
  std::unique_lock lock(door_);
  while (!ends_) {
    // Sleep while a thread wants to enter: the lock alone is not fair, and this thread could take it again at once.
    if (wanting_ > 0 || !engine_.has_aside()) {
      sleeps_ = true;
      wake_.wait(lock);
      sleeps_ = false;
    } else if (!poll()) {
      lock.unlock();
      idle();
      lock.lock();
    }
  }
}

/// Polls the engine, unless any thread has set ends_.
bool ProgressThread::poll() noexcept {
  const auto turn = shares_library_ ? std::unique_lock(polls_library) : std::unique_lock<std::mutex>();
  polls_ = true;
  const bool moved = ends_ || engine_.poll_aside();
  polls_ = false;
  return moved;
}

/// Waits without the transport, which may be gone if the last run broke off.
void ProgressThread::idle() const noexcept {
  if (pinned_)
    give_way();
  else
    std::this_thread::sleep_for(pause);
}

}  // namespace weir::detail
