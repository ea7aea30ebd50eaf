// simt.cpp: fibers, made with makecontext and switched with _setjmp and _longjmp, which, unlike swapcontext, make no system calls.
#undef _FORTIFY_SOURCE  // its longjmp treats another stack as an error
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <vector>

#include "cuda_runtime.h"

namespace simt {

Place place;

namespace {

constexpr std::size_t stack_bytes = 64 * 1024;
constexpr unsigned lanes = 32;

enum class State { ready, at_barrier, in_exchange, done };

struct Fiber {
  ucontext_t context;
  jmp_buf jump;
  bool started = false;
  State state = State::done;
  uint3 thread;
};

struct Warp {
  std::uint64_t values[2][lanes];
  unsigned turn = 0, arrived = 0;
};

class Block {
 public:
  explicit Block(unsigned threads) : fibers_(threads), warps_((threads + lanes - 1) / lanes), order_(warps_.size()) {
    stacks_ = mmap(nullptr, threads * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks_ == MAP_FAILED) stop("no memory for the stacks of a block");
    std::iota(order_.begin(), order_.end(), 0u);
    for (unsigned i = 0; i < threads; ++i) {
      Fiber& fiber = fibers_[i];
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = static_cast<char*>(stacks_) + i * stack_bytes;
      fiber.context.uc_stack.ss_size = stack_bytes;
      fiber.context.uc_link = nullptr;
      makecontext(&fiber.context, &Block::enter, 0);
    }
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { munmap(stacks_, fibers_.size() * stack_bytes); }

  [[nodiscard]] unsigned size() const { return static_cast<unsigned>(fibers_.size()); }

  void run(void (*body)(void*), void* data);

  void synchronize() {
    current_->state = State::at_barrier;
    if (++waiting_ == alive_) release_barrier();
    yield();
  }

  const std::uint64_t* exchange(std::uint64_t value) {
    const unsigned thread = index(*current_), first = thread / lanes * lanes;
    Warp& warp = warps_[thread / lanes];
    std::uint64_t* const values = warp.values[warp.turn % 2];
    values[thread % lanes] = value;
    if (++warp.arrived < lanes) {
      current_->state = State::in_exchange;
      yield();
    } else {
      warp.arrived = 0;
      ++warp.turn;
      for (unsigned lane = 0; lane < lanes; ++lane) fibers_[first + lane].state = State::ready;
      yield();  // the last to arrive is not always the first to continue
    }
    return values;
  }

 private:
  bool run_warp(unsigned warp);
  [[noreturn]] static void stop(const char* what) {
    std::fprintf(stderr, "simt: block %u: %s\n", place.block.x, what);
    std::abort();
  }
  static void enter();

  [[nodiscard]] unsigned index(const Fiber& fiber) const { return static_cast<unsigned>(&fiber - fibers_.data()); }

  void release_barrier() {
    waiting_ = 0;
    for (Fiber& fiber : fibers_) {
      if (fiber.state == State::at_barrier) fiber.state = State::ready;
    }
  }

  void resume(Fiber& fiber) {
    current_ = &fiber;
    place.thread = fiber.thread;
    if (_setjmp(scheduler_) != 0) return;
    if (fiber.started) _longjmp(fiber.jump, 1);
    fiber.started = true;
    setcontext(&fiber.context);
  }

  void yield() {
    if (_setjmp(current_->jump) == 0) _longjmp(scheduler_, 1);
  }

  std::vector<Fiber> fibers_;
  std::vector<Warp> warps_;
  std::vector<unsigned> order_;  // of warps
  std::minstd_rand random_;
  void* stacks_;
  jmp_buf scheduler_;
  Fiber* current_ = nullptr;
  unsigned waiting_ = 0, alive_ = 0;
  void (*body_)(void*) = nullptr;
  void* data_ = nullptr;
};

std::unique_ptr<Block> block;

/// Runs one thread of each block, because starting a new fiber for every thread would take most of the time.
void Block::enter() {
  while (true) {
    block->body_(block->data_);
    block->current_->state = State::done;
    --block->alive_;
    if (block->waiting_ > 0 && block->waiting_ == block->alive_) block->release_barrier();
    block->yield();
  }
}

void Block::run(void (*body)(void*), void* data) {
  body_ = body;
  data_ = data;
  alive_ = size();
  for (unsigned i = 0; i < size(); ++i) {
    fibers_[i].state = State::ready;
    fibers_[i].thread = {i % place.threads.x, i / place.threads.x, 0};
  }
  while (alive_ > 0) {
    bool progress = false;
    std::shuffle(order_.begin(), order_.end(), random_);
    for (const unsigned warp : order_) progress |= run_warp(warp);
    if (!progress) stop("its threads wait for each other: a barrier or warp function that not all of them reach");
  }
}

/// Runs the warp as far as it gets alone, so that missing synchronisation with other warps gives wrong results.
bool Block::run_warp(unsigned warp) {
  const unsigned first = warp * lanes, last = std::min(first + lanes, size());
  bool progress = false;
  for (bool any = true; any;) {
    any = false;
    const auto start = static_cast<unsigned>(random_());
    for (unsigned i = 0; i < last - first; ++i) {
      Fiber& fiber = fibers_[first + (start + i) % (last - first)];
      if (fiber.state != State::ready) continue;
      any = progress = true;
      resume(fiber);
    }
  }
  return progress;
}

}  // namespace

void run(dim3 blocks, dim3 threads, void (*body)(void*), void* data) {
  // One kernel at a time, from any thread, because __shared__ memory is static.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  const unsigned size = threads.x * threads.y;
  if (block == nullptr || block->size() != size) block = std::make_unique<Block>(size);
  place.blocks = blocks;
  place.threads = threads;
  for (unsigned y = 0; y < blocks.y; ++y) {
    for (unsigned x = 0; x < blocks.x; ++x) {
      place.block = {x, y, 0};
      block->run(body, data);
    }
  }
}

void synchronize_block() { block->synchronize(); }
const std::uint64_t* exchange(std::uint64_t value) { return block->exchange(value); }

}  // namespace simt
