// The C ABI of sources of samples: thin shims over weir/datacache.hpp.
#include "source.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace weir::capi {

/// A data set that C functions read.
class SourceOfFunctions final : public weir::SampleSource {
 public:
  SourceOfFunctions(const weir_source_functions& functions, void* user)
      : functions_(functions), user_(user), identity_(functions.identity) {}
  SourceOfFunctions(const SourceOfFunctions&) = delete;
  SourceOfFunctions& operator=(const SourceOfFunctions&) = delete;
  ~SourceOfFunctions() override { close(); }
  /// Returns once no function is running. From then on, none is called.
  void close() {
    std::unique_lock lock(mutex_);
    closed_ = true;
    ended_.wait(lock, [&] { return under_way_ == 0; });
    if (functions_.release != nullptr) functions_.release(user_);
    functions_.release = nullptr;
  }

  [[nodiscard]] std::int64_t size() const override { return functions_.size; }
  [[nodiscard]] std::int64_t value_bytes() const override { return functions_.value_bytes; }
  [[nodiscard]] bool variable() const override { return functions_.variable != 0; }
  [[nodiscard]] std::string identity() const override { return identity_; }
  void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override {
    const Visit visit(*this);
    weir_source_call call{&encoded};
    std::fill(sizes.begin(), sizes.end(), -1);
    check(functions_.read(user_, first, count, sizes.data(), &call), call, "read", first, count);
    std::int64_t rest = static_cast<std::int64_t>(encoded.size());
    for (const std::int64_t size : sizes) rest = size < 0 || size > rest ? -1 : rest - size;
    if (rest != 0)
      throw weir::Error(WEIR_ERR_ARGUMENT, "read of the caller's source has appended " + std::to_string(encoded.size()) +
                                               " bytes for " + std::to_string(count) + " samples from " + std::to_string(first) +
                                               " on, and sizes do not add up to that");
  }
  std::int64_t decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) override {
    if (functions_.decode == nullptr) return SampleSource::decode(sample, encoded, value);
    const Visit visit(*this);
    weir_source_call call{nullptr};
    const auto room = static_cast<std::int64_t>(value.size());
    std::int64_t bytes = room;
    check(functions_.decode(user_, sample, encoded.data(), static_cast<std::int64_t>(encoded.size()), value.data(), &bytes, &call),
          call, "decode", sample, 1);
    if (bytes < 0 || bytes > room || (bytes < room && functions_.variable == 0))
      throw weir::Error(WEIR_ERR_ARGUMENT, "decode of the caller's source says that sample " + std::to_string(sample) + " has " +
                                               std::to_string(bytes) + " bytes: there is room for " + std::to_string(room) +
                                               (functions_.variable == 0 ? ", and not variable" : ""));
    return bytes;
  }

 private:
  /// Counts one call of a function.
  class Visit {
   public:
    explicit Visit(SourceOfFunctions& source) : source_(source) {
      const std::lock_guard lock(source_.mutex_);
      if (source_.closed_) throw weir::Error(WEIR_ERR_STATE, "the caller's source was closed by weir_source_close");
      ++source_.under_way_;
    }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() {
      const std::lock_guard lock(source_.mutex_);
      if (--source_.under_way_ == 0) source_.ended_.notify_all();
    }

   private:
    SourceOfFunctions& source_;
  };

  static void check(weir_status status, const weir_source_call& call, const char* function, std::int64_t first,
                    std::int64_t count) {
    if (status == WEIR_OK && call.error.empty()) return;
    const bool known = status > WEIR_OK && status <= WEIR_ERR_FILE;
    const std::string text = "status " + std::to_string(static_cast<int>(status)) + ", without a text";
    const std::string samples = count == 1 ? "sample " + std::to_string(first)
                                           : "samples " + std::to_string(first) + " to " + std::to_string(first + count - 1);
    throw weir::Error(known ? status : WEIR_ERR_FILE, std::string(function) + " of the caller's source fails at " + samples + ": " +
                                                          (call.error.empty() ? text : call.error));
  }

  weir_source_functions functions_;
  void* user_;
  std::string identity_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int under_way_ = 0;
  bool closed_ = false;
};

}  // namespace weir::capi

using namespace weir::capi;

namespace {

template <class Make>
weir_status make_source(weir_source** source, const Make& make) noexcept {
  if (source != nullptr) *source = nullptr;
  return guard(nullptr, [&] {
    need(source != nullptr, "the address for the source is NULL");
    auto made = std::make_unique<weir_source>(weir_source{make()});
    made->functions = dynamic_cast<SourceOfFunctions*>(made->source.get());
    add_handle(made.get(), handle_kind<weir_source>);
    *source = made.release();
  });
}

template <class Body>
weir_status guard_source(const weir_source* source, Body&& body) noexcept {
  return guard(nullptr, [&] {
    need_alive(source);
    body(*source->source);
  });
}

const char* or_empty(const char* text) { return text != nullptr ? text : ""; }

}  // namespace

extern "C" {

weir_status weir_source_create_records(const char* path, std::int64_t record_bytes, std::int64_t header_bytes,
                                       weir_source** source) {
  return make_source(source, [&] {
    need(path != nullptr, "the path is NULL");
    return weir::record_source(path, record_bytes, header_bytes);
  });
}

weir_status weir_source_create_idx(const char* path, const char* labels, weir_source** source) {
  return make_source(source, [&] {
    need(path != nullptr, "the path is NULL");
    return weir::idx_source(path, or_empty(labels));
  });
}

weir_status weir_source_create_npy(const char* path, const char* labels, weir_source** source) {
  return make_source(source, [&] {
    need(path != nullptr, "the path is NULL");
    return weir::npy_source(path, or_empty(labels));
  });
}

weir_status weir_source_create_hdf5(const char* path, const char* dataset, const char* labels, weir_source** source) {
  return make_source(source, [&] {
    need(path != nullptr, "the path is NULL");
    need(dataset != nullptr, "the name of the data set is NULL");
    return weir::hdf5_source(path, dataset, or_empty(labels));
  });
}

weir_status weir_source_create_jpeg(const char* folder, int height, int width, weir_source** source) {
  return make_source(source, [&] {
    need(folder != nullptr, "the folder is NULL");
    return weir::jpeg_source(folder, height, width);
  });
}

weir_status weir_source_create(const weir_source_functions* functions, void* user, weir_source** source) {
  return make_source(source, [&]() -> std::shared_ptr<weir::SampleSource> {
    const weir_source_functions initial = WEIR_SOURCE_FUNCTIONS_INIT;
    const weir_source_functions known = read_struct(functions, initial, "WEIR_SOURCE_FUNCTIONS_INIT", "the struct of functions");
    need(known.read != nullptr, "the function that reads samples is NULL");
    need(known.identity != nullptr, "the identity is NULL");
    need(known.size >= 0, "the number of samples is negative");
    need(known.value_bytes >= 1, "value_bytes is below 1: say how many bytes a decoded sample has at most");
    return std::make_shared<SourceOfFunctions>(known, user);
  });
}

weir_status weir_source_append(weir_source_call* call, std::int64_t bytes, void** room) {
  return guard(nullptr, [&] {
    need(call != nullptr && call->encoded != nullptr, "there is nothing to append to: weir_source_append is for read");
    need(room != nullptr, "the address for the room is NULL");
    need(bytes >= 0, "the number of bytes is negative");
    const std::size_t begin = call->encoded->size();
    if (static_cast<std::uint64_t>(bytes) > call->encoded->max_size() - begin) throw std::bad_alloc();
    call->encoded->resize(begin + static_cast<std::size_t>(bytes));
    *room = call->encoded->data() + begin;
  });
}

weir_status weir_source_fail(weir_source_call* call, const char* text) {
  return guard(nullptr, [&] {
    need(call != nullptr, "the call is NULL");
    need(text != nullptr, "the text is NULL");
    call->error = text[0] != '\0' ? text : "no text";
  });
}

weir_status weir_source_destroy(weir_source* source) {
  if (source == nullptr) return WEIR_OK;
  return guard(nullptr, [&] {
    need_alive(source);
    remove_handle(source);
    delete source;
  });
}

weir_status weir_source_close(weir_source* source) {
  return guard(nullptr, [&] {
    need_alive(source);
    if (source->functions != nullptr) source->functions->close();
  });
}

weir_status weir_source_size(const weir_source* source, std::int64_t* samples) {
  return guard_source(source, [&](const weir::SampleSource& of) {
    need(samples != nullptr, "the address for the number of samples is NULL");
    *samples = of.size();
  });
}

weir_status weir_source_value_bytes(const weir_source* source, std::int64_t* bytes) {
  return guard_source(source, [&](const weir::SampleSource& of) {
    need(bytes != nullptr, "the address for the bytes is NULL");
    *bytes = of.value_bytes();
  });
}

const char* weir_source_identity(const weir_source* source) {
  static thread_local std::string line;
  const weir_status status = guard_source(source, [&](const weir::SampleSource& of) { line = of.identity(); });
  return status == WEIR_OK ? line.c_str() : nullptr;
}

const char* weir_source_layout(const weir_source* source) {
  static thread_local std::string text;
  const weir_status status = guard_source(source, [&](const weir::SampleSource& of) { text = of.layout(); });
  return status == WEIR_OK ? text.c_str() : nullptr;
}

weir_status weir_source_get(weir_source* source, std::int64_t sample, void* value, std::int64_t* bytes) {
  return guard_source(source, [&](weir::SampleSource& of) {
    need(value != nullptr, "the value is NULL");
    need(bytes != nullptr, "the address for the bytes is NULL");
    if (sample < 0 || sample >= of.size())
      throw weir::Error(WEIR_ERR_ARGUMENT, "there is no sample " + std::to_string(sample) + ": there are " +
                                               std::to_string(of.size()) + ", numbered from 0");
    std::vector<std::byte> encoded;
    std::int64_t size = 0;
    of.read(sample, 1, encoded, {&size, 1});
    *bytes = of.decode(sample, encoded, bytes_at(value, of.value_bytes()));
  });
}

}  // extern "C"
