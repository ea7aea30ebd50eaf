// channel.hpp: how a collective sends and receives: the transport under the run's tag, with traffic counted by peer level.
#pragma once

#include <algorithm>
#include <array>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <span>

#include "async/engine.hpp"
#include "async/stage_scope.hpp"
#include "async/traffic.hpp"
#include "topology/topology.hpp"

namespace weir {

/// Sends and receives for one run. Cheap to copy; refers to an engine, a run and a topology that must outlive it.
class Channel {
 public:
  Channel(Engine& engine, const Topology& topology, Run& run, TrafficCount& count)
      : engine_(&engine), topology_(&topology), run_(&run), count_(&count), rank_(topology.rank()), size_(topology.size()) {
    run.traffic = &count;
  }

  /// Returns a channel of the same run among some of the ranks only: rank i of the group is members[i]. `members` are ranks of the
  /// communicator in ascending order, this one among them, and must outlive the channel.
  [[nodiscard]] Channel group(std::span<const int> members) const {
    Channel channel = *this;
    channel.members_ = members;
    channel.rank_ = static_cast<int>(std::lower_bound(members.begin(), members.end(), topology_->rank()) - members.begin());
    channel.size_ = static_cast<int>(members.size());
    return channel;
  }

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Returns the topology of the whole communicator.
  [[nodiscard]] const Topology& topology() const noexcept { return *topology_; }

  /// Enters a stage of this run until the end of the block. `now`: the time, if it is known.
  [[nodiscard]] StageScope stage(Stage stage, Clock::time_point now = {}) const noexcept { return {*engine_, *run_, stage, now}; }
  /// Returns when the last stage, or the run, began or ended, for a stage that begins right there: reading the clock is a good part
  /// of a small run. The clock's epoch if that is not known.
  [[nodiscard]] Clock::time_point boundary() const noexcept { return run_->boundary; }

  /// send() and receive() post now; await the request later. The memory must stay until the request is done.
  [[nodiscard]] Request send(const void* data, std::int64_t bytes, int to, Traffic kind) const {
    const int peer = in_communicator(to);
    const Level level = count_sent(peer, bytes, kind);
    return noted(engine_->transport().send(data, bytes, peer, run_->tag), true, peer, level, bytes);
  }
  [[nodiscard]] Request receive(void* data, std::int64_t bytes, int from, Traffic kind) const {
    const int peer = in_communicator(from);
    const Level level = topology_->level(topology_->rank(), peer);
    count_->bytes_received[static_cast<std::size_t>(level)] += bytes;
    ++count_->messages_received[static_cast<std::size_t>(level)];
    count_->kind_received[static_cast<std::size_t>(kind)] += bytes;
    if (bytes >= Engine::large_message_bytes) run_->receives_much = true;
    return noted(engine_->transport().receive(data, bytes, peer, run_->tag), false, peer, level, bytes);
  }

  /// Sends a message that the other rank receives by receive_up_to(). See Transport::send_open.
  [[nodiscard]] Request send_open(const void* data, std::int64_t bytes, int to, Traffic kind) const {
    const int peer = in_communicator(to);
    const Level level = count_sent(peer, bytes, kind);
    return noted(engine_->transport().send_open(data, bytes, peer, run_->tag), true, peer, level, bytes);
  }
  /// Receives a message of at most `bytes`. The message must contain its own size: report it to note_received(), which counts it.
  /// See Transport::receive_up_to.
  [[nodiscard]] Request receive_up_to(void* data, std::int64_t bytes, int from) const {
    const int peer = in_communicator(from);
    const Level level = topology_->level(topology_->rank(), peer);
    ++count_->messages_received[static_cast<std::size_t>(level)];
    return noted(engine_->transport().receive_up_to(data, bytes, peer, run_->tag), false, peer, level, bytes);
  }
  void note_received(std::int64_t bytes, int from, Traffic kind) const {
    const Level level = topology_->level(topology_->rank(), in_communicator(from));
    count_->bytes_received[static_cast<std::size_t>(level)] += bytes;
    count_->kind_received[static_cast<std::size_t>(kind)] += bytes;
  }

  /// Says that the run receives large messages, if they come in small pieces.
  void note_much() const { run_->receives_much = true; }

  /// Posts the transport's own allreduce over all ranks. Its traffic is not counted. See Transport::allreduce.
  [[nodiscard]] Request allreduce(void* data, std::int64_t count, DataType type, int lane) const {
    return noted(engine_->transport().allreduce(data, count, type, lane, run_->tag), true, -1, Level::self, 0);
  }

  class Awaiter {
   public:
    Awaiter(Run* run, std::span<Request> requests) : run_(run), many_(requests) {}
    Awaiter(Run* run, Request request) : run_(run), one_(request) {}
    [[nodiscard]] bool await_ready() const noexcept { return many_.empty() && one_.slot < 0; }
    void await_suspend(std::coroutine_handle<> leaf) noexcept {
      run_->leaf = leaf;
      run_->awaited = many_.empty() ? std::span<Request>(&one_, 1) : many_;
      run_->awaited_done = 0;
    }
    void await_resume() const {
      run_->awaited = {};
      if (run_->failure) std::rethrow_exception(std::exchange(run_->failure, nullptr));
    }

   private:
    Run* run_;
    std::span<Request> many_;
    Request one_;
  };
  /// co_await: waits until the request, or all of the requests, are done. Requests that were never posted count as done.
  [[nodiscard]] Awaiter done(Request request) const { return {run_, request}; }
  [[nodiscard]] Awaiter done(std::span<Request> requests) const { return {run_, requests}; }

  class GateAwaiter {
   public:
    GateAwaiter(Run* run, const bool* open, const Run* keeper) : run_(run), open_(open), keeper_(keeper) {}
    [[nodiscard]] bool await_ready() const noexcept { return *open_; }
    void await_suspend(std::coroutine_handle<> leaf) noexcept {
      run_->leaf = leaf;
      run_->gate = open_;
      run_->gate_keeper = keeper_;
    }
    void await_resume() const {
      if (run_->failure) std::rethrow_exception(std::exchange(run_->failure, nullptr));
    }

   private:
    Run* run_;
    const bool* open_;
    const Run* keeper_;
  };
  /// co_await: waits until `open` is true. `keeper`, another run of this rank, makes it true, however that run ends. While the
  /// keeper makes progress, this run does not time out.
  [[nodiscard]] GateAwaiter opened(const bool& open, const Run& keeper) const { return {run_, &open, &keeper}; }
  class CompletionAwaiter {
   public:
    CompletionAwaiter(Run* run, Completion* completion) : run_(run), completion_(completion) {}
    [[nodiscard]] bool await_ready() const { return completion_->reached_soon(); }
    void await_suspend(std::coroutine_handle<> leaf) noexcept {
      run_->leaf = leaf;
      run_->completion = completion_;
    }
    void await_resume() const {
      run_->completion = nullptr;
      if (!run_->failure) return;
      completion_->abandon();
      std::rethrow_exception(std::exchange(run_->failure, nullptr));
    }

   private:
    Run* run_;
    Completion* completion_;
  };
  /// co_await: waits until the completion is reached.
  [[nodiscard]] CompletionAwaiter done(Completion& completion) const {
    if (completion.awaits_peers() && run_->first_message == Clock::time_point{}) run_->first_message = begin_of_stage();
    return {run_, &completion};
  }

  class CallerAwaiter {
   public:
    CallerAwaiter(const Engine* engine, Run* run) : engine_(engine), run_(run) {}
    [[nodiscard]] bool await_ready() const noexcept { return !engine_->leaves_arrays_alone() || run_->owner_gone; }
    void await_suspend(std::coroutine_handle<> leaf) noexcept {
      run_->leaf = leaf;
      run_->awaits_caller = true;
    }
    void await_resume() const {
      if (run_->failure) std::rethrow_exception(std::exchange(run_->failure, nullptr));
    }

   private:
    const Engine* engine_;
    Run* run_;
  };
  /// co_await: waits until the caller's arrays may be touched. They may not in polls of a progress thread, and while another plan
  /// or table ends and drives this run: they may have been destroyed before. What follows must not depend on other ranks.
  [[nodiscard]] CallerAwaiter caller() const { return {engine_, run_}; }

  class TurnAwaiter {
   public:
    explicit TurnAwaiter(Run* run) : run_(run) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> leaf) noexcept { run_->leaf = leaf; }
    void await_resume() const {
      if (run_->failure) std::rethrow_exception(std::exchange(run_->failure, nullptr));
    }

   private:
    Run* run_;
  };
  /// co_await: waits until no more urgent run holds this one back. It delays only later messages: one that has been posted is on
  /// its way, however urgent other runs are.
  [[nodiscard]] TurnAwaiter turn() const { return TurnAwaiter(run_); }
  /// Gives this run another priority from now on.
  void reprioritise(int priority) const { engine_->reprioritise(*run_, priority); }

 private:
  /// Returns when the innermost timed stage began, or the time now if no stage is timed. For exchanges in shared memory: reading
  /// the clock would take a good part of their time.
  [[nodiscard]] Clock::time_point begin_of_stage() const noexcept {
    const StageScope* stage = run_->innermost;
    while (stage != nullptr && stage->begun() == Clock::time_point{}) stage = stage->outer();
    return stage != nullptr ? stage->begun() : Clock::now();
  }
  Level count_sent(int peer, std::int64_t bytes, Traffic kind) const {
    const Level level = topology_->level(topology_->rank(), peer);
    count_->bytes_sent[static_cast<std::size_t>(level)] += bytes;
    ++count_->messages_sent[static_cast<std::size_t>(level)];
    count_->kind_sent[static_cast<std::size_t>(kind)] += bytes;
    return level;
  }
  void note_first_message() const noexcept {
    if (run_->first_message == Clock::time_point{}) run_->first_message = Clock::now();
  }
  /// `peer` is -1 for all ranks.
  [[nodiscard]] Request noted(Request request, bool send, int peer, Level level, std::int64_t bytes) const noexcept {
    note_first_message();
    for (Observer* const observer : engine_->detail_observers()) observer->message(*run_, {request.slot, send, peer, level, bytes});
    return request;
  }
  [[nodiscard]] int in_communicator(int member) const {
    return members_.empty() ? member : members_[static_cast<std::size_t>(member)];
  }

  Engine* engine_;
  const Topology* topology_;
  Run* run_;
  TrafficCount* count_;
  std::span<const int> members_;  // empty: all ranks
  int rank_, size_;
};

}  // namespace weir
