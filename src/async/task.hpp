// task.hpp: the coroutine type of every algorithm. It is lazy and awaited once; exceptions pass through.
// The only file that names std::coroutine_handle besides the engine's leaf pointer (channel.hpp, engine.hpp).
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

#include "async/frame_pool.hpp"

namespace weir {

template <class T>
class task;

namespace detail {

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();
  std::exception_ptr error;

  static void* operator new(std::size_t bytes) { return FramePool::allocate_frame(bytes); }
  static void operator delete(void* memory, std::size_t bytes) noexcept { FramePool::release_frame(memory, bytes); }

  struct Final {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) const noexcept {
      return finished.promise().continuation;
    }
    void await_resume() const noexcept {}
  };
  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] Final final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error = std::current_exception(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  task<T> get_return_object();
  void return_value(T result) { value.emplace(std::move(result)); }
  T take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  task<void> get_return_object();
  void return_void() const noexcept {}
  void take() const noexcept {}
};

}  // namespace detail

/// A coroutine that starts when awaited (or resumed by the engine) and yields a T. Owns its frame.
template <class T = void>
class [[nodiscard]] task {
 public:
  using promise_type = detail::Promise<T>;

  task() = default;
  explicit task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  task(task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  task& operator=(task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~task() {
    if (handle_) handle_.destroy();
  }

  [[nodiscard]] std::coroutine_handle<> handle() const noexcept { return handle_; }
  [[nodiscard]] bool done() const noexcept { return !handle_ || handle_.done(); }
  /// Returns what a finished task threw; null if nothing.
  [[nodiscard]] std::exception_ptr error() const noexcept { return handle_ ? handle_.promise().error : nullptr; }
  /// Returns the result of a finished task, or throws what it threw.
  T get() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return handle_.promise().take();
  }

  auto operator co_await() && noexcept {
    struct Awaiter {
      task& awaited;
      [[nodiscard]] bool await_ready() const noexcept { return awaited.done(); }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<> continuation) const noexcept {
        awaited.handle_.promise().continuation = continuation;
        return awaited.handle_;
      }
      T await_resume() const { return awaited.get(); }
    };
    return Awaiter{*this};
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

/// Returns the result of a task that waits for nothing.
template <class T>
T run_here(task<T> body) {
  body.handle().resume();
  return body.get();
}

namespace detail {
template <class T>
task<T> Promise<T>::get_return_object() {
  return task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline task<void> Promise<void>::get_return_object() { return task<void>(std::coroutine_handle<Promise>::from_promise(*this)); }
}  // namespace detail

}  // namespace weir
