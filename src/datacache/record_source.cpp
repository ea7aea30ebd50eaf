// Reads records of equal size.
#include "base/error.hpp"
#include "datacache/array_source.hpp"

namespace weir {

using namespace datacache;

std::shared_ptr<SampleSource> record_source(const std::string& path, std::int64_t record_bytes, std::int64_t header_bytes) {
  require(record_bytes >= 1, "a record has {} bytes: it must have at least 1", record_bytes);
  require(header_bytes >= 0, "the header has {} bytes: it must not have fewer than 0", header_bytes);
  ArrayFile records{StoreFile(path), header_bytes, {}};
  const std::int64_t bytes = records.file.bytes() - header_bytes;
  if (bytes < 0 || bytes % record_bytes != 0)
    fail(WEIR_ERR_FILE, "{} has {} bytes, which are no header of {} bytes and a whole number of records of {} bytes", path,
         records.file.bytes(), header_bytes, record_bytes);
  records.shape.dimensions = {bytes / record_bytes, record_bytes};
  records.shape.measure(path);
  return array_source("records", std::move(records), std::nullopt);
}

}  // namespace weir
