// slow_store.hpp: a store of samples behind a network card: one rank serves records over TCP, and others read them.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <weir/datacache.hpp>

#include "base/descriptor.hpp"

namespace weir::cli {

/// Returns byte `offset` of the synthetic data.
[[nodiscard]] std::byte stored_byte(std::int64_t offset);

/// Serves until destruction. A request is two 64-bit numbers, offset and bytes. The answer is these bytes.
class StoreServer {
 public:
  StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  ~StoreServer();
  [[nodiscard]] int port() const { return port_; }

 private:
  void accept_all();

  Descriptor listener_;
  int port_ = 0;
  std::list<Descriptor> connections_;
  std::vector<std::thread> threads_;  // of the connections
  std::thread accepting_;
};

/// Reads records from a StoreServer.
class StoreClient final : public SampleSource {
 public:
  StoreClient(std::string address, int port, std::int64_t samples, std::int64_t record_bytes);
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] std::int64_t value_bytes() const override { return record_bytes_; }
  [[nodiscard]] std::string identity() const override;
  void read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) override;

 private:
  [[nodiscard]] Descriptor connection();

  std::string address_;
  int port_;
  std::int64_t samples_, record_bytes_;
  std::mutex mutex_;
  std::vector<Descriptor> idle_;  // connections
};

/// Returns this host's address on the network that it sends through.
[[nodiscard]] std::string own_address();

}  // namespace weir::cli
