// The classes of weir/datacache.hpp over their states.
#include "base/keep.hpp"
#include "datacache/sample_cache.hpp"
#include "datacache/sample_loader.hpp"

namespace weir {
namespace {

void retire(std::shared_ptr<detail::SampleCacheImpl>& state) noexcept {
  if (!state) return;
  if (state->loaders > 0) {  // they go on
    state->left = true;
    state.reset();
    return;
  }
  const std::shared_ptr<detail::CommunicatorState> comm = state->comm;  // ends after the cache, with nobody inside
  const auto inside = comm->enter();
  if (state->retire())
    state.reset();
  else
    keep_forever(std::move(state));
}

void retire(std::shared_ptr<detail::SampleLoaderImpl>& state) noexcept {
  if (!state) return;
  std::shared_ptr<detail::SampleCacheImpl> cache = state->cache;
  {
    const std::shared_ptr<detail::CommunicatorState> comm = cache->comm;
    const auto inside = comm->enter();
    state.reset();
  }
  // Whoever is last sees to what is in flight, and to what may have broken off.
  if (cache->left && cache->loaders == 0) retire(cache);
}

}  // namespace

SampleCache::SampleCache(const Communicator& comm, const SampleCacheConfig& config, std::shared_ptr<SampleSource> source)
    : state_(comm.state()->guarded([&] { return detail::make_sample_cache(comm.state(), config, std::move(source)); })) {}
SampleCache::SampleCache(SampleCache&&) noexcept = default;
SampleCache& SampleCache::operator=(SampleCache&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
SampleCache::~SampleCache() { retire(state_); }

void SampleCache::get(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes) {
  start(samples, values, sizes).wait();
}
Operation SampleCache::start(std::span<const std::int64_t> samples, std::span<std::byte> values, std::span<std::int64_t> sizes) {
  const auto inside = state_->comm->enter();
  return Operation(state_->start(samples, values, sizes));
}
Operation SampleCache::refuse(std::string_view why) {
  const auto inside = state_->comm->enter();
  return Operation(state_->refuse(why));
}
std::int64_t SampleCache::size() const { return state_->samples; }
std::int64_t SampleCache::value_bytes() const { return state_->value_bytes; }
int SampleCache::owner(std::int64_t sample) const { return state_->owner(sample); }
const SampleCacheConfig& SampleCache::config() const { return state_->config; }
SampleCacheStatistics SampleCache::statistics() const {
  const auto inside = state_->comm->enter();
  return state_->statistics();
}
std::string SampleCache::explanation() const { return state_->explanation; }
std::int64_t SampleCache::memory_bytes() const { return state_->memory_bytes(); }

SampleLoader::SampleLoader(SampleCache& cache, const SampleLoaderConfig& config)
    : state_(cache.state()->comm->guarded([&] { return detail::make_sample_loader(cache.state(), config); })) {}
SampleLoader::SampleLoader(SampleLoader&&) noexcept = default;
SampleLoader& SampleLoader::operator=(SampleLoader&& other) noexcept {
  if (this != &other) {
    retire(state_);
    state_ = std::move(other.state_);
  }
  return *this;
}
SampleLoader::~SampleLoader() { retire(state_); }

std::optional<SampleBatch> SampleLoader::next() {
  const auto inside = state_->cache->comm->enter();
  return state_->next();
}
std::int64_t SampleLoader::epoch() const { return state_->returned().position().epoch; }
std::int64_t SampleLoader::step() const { return state_->returned().position().step; }
std::int64_t SampleLoader::steps() const { return step() + state_->returned().steps_left(); }
std::string SampleLoader::position() const { return datacache::text_of(state_->returned().position()); }
void SampleLoader::seek(std::string_view position) {
  state_->cache->comm->guarded([&] { state_->seek(position); });
}
const SampleLoaderConfig& SampleLoader::config() const { return state_->config; }

}  // namespace weir
