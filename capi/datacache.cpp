// The C ABI of the sample cache: thin shims over weir/datacache.hpp.
#include <limits>

#include "convert.hpp"
#include "source.hpp"

using namespace weir::capi;

struct weir_cache {
  struct Batch {
    std::int64_t number;
    weir::Operation operation;
  };

  weir_comm* comm;
  weir::SampleCache cache;
  std::vector<Batch> batches{};  ///< started and not waited for
  std::int64_t started = 0;
  mutable std::string explanation{};  ///< the text returned last
};

struct weir_loader {
  weir_comm* comm;
  weir::SampleLoader loader;
  mutable std::string position{};  ///< the text returned last
};

namespace {

/// The arguments of a request, converted to C++. The other ranks are already in the call, so invalid arguments become values that
/// the C++ call refuses on all ranks.
struct Question {
  Question(const weir_cache* cache, const std::int64_t* numbers, std::int64_t count, void* memory, std::int64_t* bytes) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
    const std::size_t asked = count < 0 ? most : static_cast<std::size_t>(count);
    const auto each = static_cast<std::size_t>(cache->cache.value_bytes());
    samples = {numbers, asked};
    if (memory != nullptr) values = {static_cast<std::byte*>(memory), asked <= most / each ? asked * each : most};
    if (bytes != nullptr) sizes = {bytes, asked};
  }
  std::span<const std::int64_t> samples;
  std::span<std::byte> values;
  std::span<std::int64_t> sizes;
};

/// Returns whether a batch has ended, by calling `ends`, which may throw the batch's error. Forgets a batch that has ended.
template <class Ends>
bool has_ended(weir_cache* cache, std::int64_t number, const Ends& ends) {
  if (number < 0 || number >= cache->started)
    throw weir::Error(WEIR_ERR_ARGUMENT, "there is no batch " + std::to_string(number) + ": " + std::to_string(cache->started) +
                                             " were started, numbered from 0");
  const auto found = std::find_if(cache->batches.begin(), cache->batches.end(),
                                  [number](const weir_cache::Batch& batch) { return batch.number == number; });
  if (found == cache->batches.end()) return true;
  try {
    if (!ends(found->operation)) return false;
  } catch (...) {
    cache->batches.erase(found);
    throw;
  }
  cache->batches.erase(found);
  return true;
}

/// Starts a batch with begin(), and sets *batch to its number.
template <class Begin>
weir_status begin_batch(weir_cache* cache, std::int64_t* batch, const Begin& begin) noexcept {
  return guard_handle(cache, [&] {
    cache->batches.reserve(cache->batches.size() + 1);  // before the start: nothing may fail after it
    cache->batches.push_back({cache->started, begin()});
    const std::int64_t number = cache->started++;
    // Batches from so long ago have ended. Their calls now carry newer batches.
    std::erase_if(cache->batches,
                  [&](const weir_cache::Batch& old) { return number - old.number >= cache->cache.config().in_flight; });
    need(batch != nullptr, "the address for the number of the batch is NULL");
    *batch = number;
  });
}

weir_sample_batch to_c(const weir::SampleBatch& batch) {
  weir_sample_batch c{};
  c.epoch = batch.epoch;
  c.step = batch.step;
  c.count = static_cast<std::int64_t>(batch.samples.size());
  c.value_bytes = batch.value_bytes;
  c.samples = batch.samples.data();
  c.values = batch.values.data();
  c.sizes = batch.sizes.data();
  return c;
}

template <class Handle, class Value, class Get>
weir_status get_value(const Handle* handle, Value* value, const char* problem, const Get& get) noexcept {
  return guard_handle(handle, [&] {
    need(value != nullptr, problem);
    *value = get();
  });
}

}  // namespace

extern "C" {

weir_status weir_cache_create(weir_comm* comm, const weir_sample_cache_config* config, weir_source* source, weir_cache** cache) {
  return make_handle(comm, cache, [&] {
    weir::SampleCacheConfig described;
    std::shared_ptr<weir::SampleSource> samples;
    try {
      need(cache != nullptr, "the address for the cache is NULL");
      described =
          from_c(read_struct<weir_sample_cache_config>(config, WEIR_SAMPLE_CACHE_CONFIG_INIT, "WEIR_SAMPLE_CACHE_CONFIG_INIT"));
      need_alive(source);
      samples = source->source;
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(comm->communicator.state(), "cache", error);
    }
    return std::unique_ptr<weir_cache>(new weir_cache{comm, weir::SampleCache(comm->communicator, described, std::move(samples))});
  });
}

weir_status weir_cache_destroy(weir_cache* cache) { return destroy_handle(cache); }

weir_status weir_cache_get(weir_cache* cache, const std::int64_t* samples, std::int64_t count, void* values, std::int64_t* sizes) {
  return guard_handle(cache, [&] {
    const Question asked(cache, samples, count, values, sizes);
    cache->cache.get(asked.samples, asked.values, asked.sizes);
  });
}

weir_status weir_cache_start(weir_cache* cache, const std::int64_t* samples, std::int64_t count, void* values, std::int64_t* sizes,
                             std::int64_t* batch) {
  return begin_batch(cache, batch, [&] {
    const Question asked(cache, samples, count, values, sizes);
    return cache->cache.start(asked.samples, asked.values, asked.sizes);
  });
}

weir_status weir_cache_refuse(weir_cache* cache, const char* why, std::int64_t* batch) {
  return begin_batch(cache, batch, [&] { return cache->cache.refuse(reason(why)); });
}

weir_status weir_cache_test(weir_cache* cache, std::int64_t batch, int* done) {
  return guard_handle(cache, [&] {
    need(done != nullptr, "the address for done is NULL");
    *done = has_ended(cache, batch, [](weir::Operation& operation) { return operation.test(); }) ? 1 : 0;
  });
}

weir_status weir_cache_wait(weir_cache* cache, std::int64_t batch) {
  return guard_handle(cache, [&] {
    has_ended(cache, batch, [](weir::Operation& operation) {
      operation.wait();
      return true;
    });
  });
}

weir_status weir_cache_wait_for(weir_cache* cache, std::int64_t batch, double seconds, int* done) {
  return guard_handle(cache, [&] {
    need(done != nullptr, "the address for done is NULL");
    need(seconds >= 0, "the time to wait is below 0");
    *done = has_ended(cache, batch, [&](weir::Operation& operation) { return operation.wait_for(seconds); }) ? 1 : 0;
  });
}

weir_status weir_cache_size(const weir_cache* cache, std::int64_t* samples) {
  return get_value(cache, samples, "the address for the number of samples is NULL", [&] { return cache->cache.size(); });
}

weir_status weir_cache_value_bytes(const weir_cache* cache, std::int64_t* bytes) {
  return get_value(cache, bytes, "the address for the bytes is NULL", [&] { return cache->cache.value_bytes(); });
}

weir_status weir_cache_owner(const weir_cache* cache, std::int64_t sample, int* rank) {
  return get_value(cache, rank, "the address for the rank is NULL", [&] { return cache->cache.owner(sample); });
}

weir_status weir_cache_get_statistics(const weir_cache* cache, weir_sample_cache_statistics* statistics) {
  return guard_handle(cache, [&] { fill_struct(statistics, to_c(cache->cache.statistics())); });
}

weir_status weir_cache_get_config(const weir_cache* cache, weir_sample_cache_config* config) {
  return guard_handle(cache, [&] { fill_struct(config, to_c(cache->cache.config())); });
}

const char* weir_cache_explanation(const weir_cache* cache) {
  const weir_status status = guard_handle(cache, [&] { cache->explanation = cache->cache.explanation(); });
  return status == WEIR_OK ? cache->explanation.c_str() : nullptr;
}

weir_status weir_cache_memory_bytes(const weir_cache* cache, std::int64_t* bytes) {
  return get_value(cache, bytes, "the address for the bytes is NULL", [&] { return cache->cache.memory_bytes(); });
}

weir_status weir_loader_create(weir_cache* cache, const weir_sample_loader_config* config, weir_loader** loader) {
  if (loader != nullptr) *loader = nullptr;
  if (const weir_status status = guard_handle(cache, [] {}); status != WEIR_OK) return status;
  return make_handle(cache->comm, loader, [&] {
    weir::SampleLoaderConfig described;
    try {
      need(loader != nullptr, "the address for the loader is NULL");
      described =
          from_c(read_struct<weir_sample_loader_config>(config, WEIR_SAMPLE_LOADER_CONFIG_INIT, "WEIR_SAMPLE_LOADER_CONFIG_INIT"));
    } catch (const weir::Error& error) {
      weir::detail::refuse_making(cache->comm->communicator.state(), "loader", error);
    }
    return std::unique_ptr<weir_loader>(new weir_loader{cache->comm, weir::SampleLoader(cache->cache, described)});
  });
}

weir_status weir_loader_destroy(weir_loader* loader) { return destroy_handle(loader); }

weir_status weir_loader_next(weir_loader* loader, weir_sample_batch* batch, int* there) {
  return guard_handle(loader, [&] {
    const std::optional<weir::SampleBatch> next = loader->loader.next();
    need(there != nullptr, "the address for whether a batch is there is NULL");
    fill_struct(batch, to_c(next.value_or(weir::SampleBatch{})));
    *there = next ? 1 : 0;
  });
}

weir_status weir_loader_epoch(const weir_loader* loader, std::int64_t* epoch) {
  return get_value(loader, epoch, "the address for the epoch is NULL", [&] { return loader->loader.epoch(); });
}

weir_status weir_loader_step(const weir_loader* loader, std::int64_t* step) {
  return get_value(loader, step, "the address for the step is NULL", [&] { return loader->loader.step(); });
}

weir_status weir_loader_steps(const weir_loader* loader, std::int64_t* steps) {
  return get_value(loader, steps, "the address for the steps is NULL", [&] { return loader->loader.steps(); });
}

const char* weir_loader_position(const weir_loader* loader) {
  const weir_status status = guard_handle(loader, [&] { loader->position = loader->loader.position(); });
  return status == WEIR_OK ? loader->position.c_str() : nullptr;
}

weir_status weir_loader_seek(weir_loader* loader, const char* position) {
  return guard_handle(loader, [&] { loader->loader.seek(position != nullptr ? position : "NULL"); });
}

weir_status weir_loader_get_config(const weir_loader* loader, weir_sample_loader_config* config) {
  return guard_handle(loader, [&] { fill_struct(config, to_c(loader->loader.config())); });
}

}  // extern "C"
