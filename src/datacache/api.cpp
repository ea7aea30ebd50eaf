// Implements the classes of weir/datacache.hpp with their states.
#include "communicator/owner.hpp"
#include "datacache/sample_cache.hpp"
#include "datacache/sample_loader.hpp"

namespace weir {
namespace {

/// Ends a cache for its owner. Its loaders can still be used.
constexpr auto end_cache = [](std::shared_ptr<detail::SampleCacheImpl> cache) {
  if (cache->loaders > 0)
    cache->left = true;
  else
    end_state(std::move(cache));
};

/// Ends a loader. The last loader of an abandoned cache also ends the cache, and handles batches in flight or broken off.
constexpr auto end_loader = [](std::shared_ptr<detail::SampleLoaderImpl> loader) {
  std::shared_ptr<detail::SampleCacheImpl> cache = loader->cache;
  {
    const std::shared_ptr<detail::CommunicatorState> comm = cache->comm;
    const auto inside = comm->enter();
    loader.reset();
  }
  if (cache->left && cache->loaders == 0) end_state(std::move(cache));
};

}  // namespace

SampleCache::SampleCache(const Communicator& comm, const SampleCacheConfig& config, std::shared_ptr<SampleSource> source)
    : state_(owned(
          comm.state(), [&] { return detail::make_sample_cache(comm.state(), config, std::move(source)); }, end_cache)) {}

void SampleCache::get(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes) {
  start(samples, values, sizes).wait();
}
Operation SampleCache::start(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes) {
  return Operation(enter(state_)->start(samples, values, sizes));
}
Operation SampleCache::refuse(std::string_view why) { return Operation(enter(state_)->refuse(why)); }
std::int64_t SampleCache::size() const { return unguarded(state_).samples; }
std::int64_t SampleCache::value_bytes() const { return unguarded(state_).value_bytes; }
int SampleCache::owner(std::int64_t sample) const { return unguarded(state_).owner(sample); }
const SampleCacheConfig& SampleCache::config() const { return unguarded(state_).config; }
SampleCacheStatistics SampleCache::statistics() const { return enter(state_)->statistics(); }
std::string SampleCache::explanation() const { return unguarded(state_).explanation; }
std::int64_t SampleCache::memory_bytes() const { return enter(state_)->memory_bytes(); }

SampleLoader::SampleLoader(SampleCache& cache, const SampleLoaderConfig& config)
    : state_(owned(
          cache.state()->comm, [&] { return detail::make_sample_loader(cache.state(), config); }, end_loader)) {}

std::optional<SampleBatch> SampleLoader::next() { return enter(state_)->next(); }
std::int64_t SampleLoader::epoch() const { return unguarded(state_).returned().position().epoch; }
std::int64_t SampleLoader::step() const { return unguarded(state_).returned().position().step; }
std::int64_t SampleLoader::steps() const { return step() + unguarded(state_).returned().steps_left(); }
std::string SampleLoader::position() const { return datacache::text_of(unguarded(state_).returned().position()); }
void SampleLoader::seek(std::string_view position) {
  unguarded(state_).communicator()->guarded([&] { (*state_)->seek(position); });
}
const SampleLoaderConfig& SampleLoader::config() const { return unguarded(state_).config; }

}  // namespace weir
