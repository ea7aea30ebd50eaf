// The C ABI of the library itself: versions, errors, lists, settings, log messages, and encoded gradients.
#include "convert.hpp"
#include "shim.hpp"

using namespace weir::capi;

namespace {

const std::vector<weir::AlgorithmInfo>& algorithms() {
  static const std::vector<weir::AlgorithmInfo> list = weir::algorithms();
  return list;
}

const std::vector<weir::CompressorInfo>& compressors() {
  static const std::vector<weir::CompressorInfo> list = weir::compressors();
  return list;
}

}  // namespace

extern "C" {

void weir_version(int* major, int* minor, int* patch) {
  const weir::Version version = weir::version();
  if (major != nullptr) *major = version.major;
  if (minor != nullptr) *minor = version.minor;
  if (patch != nullptr) *patch = version.patch;
}

const char* weir_status_string(weir_status status) {
  switch (status) {
#define WEIR_STATUS_CASE(name, value, text) \
  case WEIR_##name:                         \
    return text;
    WEIR_STATUS_LIST(WEIR_STATUS_CASE)
#undef WEIR_STATUS_CASE
  }
  return "unknown status";
}

const char* weir_last_error(const weir_comm* comm) {
  return comm != nullptr && is_alive(comm, HandleKind::communicator) ? comm->error.c_str() : thread_error.c_str();
}

const char* weir_algorithm_name(int index) {
  return index >= 0 && index < static_cast<int>(algorithms().size()) ? algorithms()[static_cast<std::size_t>(index)].name.data()
                                                                     : nullptr;
}

weir_status weir_algorithm(int index, weir_algorithm_info* info) {
  return guard(nullptr, [&] { fill_struct(info, to_c(element(algorithms(), index, "algorithm"))); });
}

const char* weir_compressor_name(int index) {
  return index >= 0 && index < static_cast<int>(compressors().size()) ? compressors()[static_cast<std::size_t>(index)].name.data()
                                                                      : nullptr;
}

weir_status weir_compressor(int index, weir_compressor_info* info) {
  return guard(nullptr, [&] { fill_struct(info, to_c(element(compressors(), index, "compressor"))); });
}

weir_status weir_encoded_inspect(const void* encoded, std::int64_t size, weir_encoded_info* info) {
  return guard(nullptr, [&] {
    need(encoded != nullptr, "the encoded gradient is NULL");
    static thread_local weir::EncodedInfo given;
    given = weir::inspect(bytes_at(encoded, size));
    fill_struct(info, to_c(given));
  });
}

weir_status weir_decode(const void* encoded, std::int64_t size, float* values, std::int64_t count, std::int32_t add) {
  return guard(nullptr, [&] {
    need(encoded != nullptr, "the encoded gradient is NULL");
    need(count >= 0, "the number of values is negative");
    need(values != nullptr || count == 0, "the address for the values is NULL");
    weir::decode(bytes_at(encoded, size), std::span(values, static_cast<std::size_t>(count)), add != 0);
  });
}

weir_status weir_setting(int index, weir_setting_info* info) {
  return guard(nullptr, [&] {
    static thread_local weir::SettingInfo given;
    given = element(weir::settings(), index, "setting");
    fill_struct(info, to_c(given));
  });
}

const char* weir_level_name(std::int32_t level) {
  return level >= 0 && level < weir::level_count ? weir::level_name(static_cast<weir::Level>(level)).data() : nullptr;
}

weir_status weir_set_log_function(weir_log_function function, void* context) {
  return guard(nullptr, [&] {
    if (function == nullptr) return weir::set_log_function({});
    weir::set_log_function([function, context](weir::LogLevel level, std::string_view text) {
      function(context, static_cast<std::int32_t>(level), std::string(text).c_str());
    });
  });
}

}  // extern "C"
