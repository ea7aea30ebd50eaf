#include "image_store.hpp"

#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <numbers>
#include <random>
#include <sstream>
#include <stdexcept>

namespace sample_cache {
namespace {

constexpr int side = 64;
constexpr std::string_view http = "http://";

std::string file_of(std::int64_t sample) { return std::to_string(sample) + ".img"; }

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes << std::flush;
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

void ImageStore::make(const std::string& folder, std::int64_t count) {
  std::filesystem::create_directories(folder);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> phase(-1.5F, 1.5F);
  std::normal_distribution<float> noise(0, 40);
  std::string bytes(side * side + 1, '\0');
  for (std::int64_t i = 0; i < count; ++i) {
    const int label = static_cast<int>(random() % classes);
    const float angle = std::numbers::pi_v<float> * static_cast<float>(label) / classes, shift = phase(random);
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const float along = static_cast<float>(x) * std::cos(angle) + static_cast<float>(y) * std::sin(angle);
        const float gray = 128 + 40 * std::sin(0.2F * along + shift) + noise(random);
        bytes[static_cast<std::size_t>(y * side + x)] = static_cast<char>(static_cast<int>(std::clamp(gray, 0.0F, 255.0F)));
      }
    }
    bytes.back() = static_cast<char>(label);
    write_file(std::filesystem::path(folder) / file_of(i), bytes);
  }
  write_file(std::filesystem::path(folder) / "images.txt", std::to_string(count) + " of " + std::to_string(side) + "\n");
}

ImageStore::ImageStore(std::string place) : place_(std::move(place)) {
  if (place_.starts_with(http)) {
    const std::string host = place_.substr(http.size(), place_.find(':', http.size()) - http.size());
    const std::string port = place_.substr(std::min(place_.size(), http.size() + host.size() + 1));
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), port.c_str(), &wanted, &found) != 0)
      throw std::runtime_error("no store at " + place_ + ": give a folder, or http://HOST:PORT, such as http://weir4:8000");
    std::memcpy(&server_, found->ai_addr, found->ai_addrlen);
    server_bytes_ = found->ai_addrlen;
    freeaddrinfo(found);
  }
  description_ = get("images.txt");
  std::string of;
  if (!(std::istringstream(description_) >> count_ >> of >> side_) || count_ < 1 || side_ < 1 || side_ > 4096)
    throw std::runtime_error("images.txt in " + place_ + " says '" + description_ + "': it must be like '8192 of 64'");
}

void ImageStore::read(std::int64_t first, std::int64_t count, std::vector<std::byte>& encoded, std::span<std::int64_t> sizes) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::string file = get(file_of(first + i));
    const auto bytes = std::as_bytes(std::span(file));
    encoded.insert(encoded.end(), bytes.begin(), bytes.end());
    sizes[static_cast<std::size_t>(i)] = std::ssize(file);
  }
}

std::int64_t ImageStore::decode(std::int64_t sample, std::span<const std::byte> encoded, std::span<std::byte> value) {
  if (std::ssize(encoded) != pixels() + 1 || std::to_integer<int>(encoded.back()) >= classes)
    throw std::runtime_error(file_of(sample) + " is damaged: it must have " + std::to_string(pixels()) + " pixels and a class");
  for (std::size_t i = 0; i + 1 < encoded.size(); ++i) {
    const float gray = static_cast<float>(std::to_integer<int>(encoded[i]) - 128) / 64;
    std::memcpy(value.data() + i * sizeof gray, &gray, sizeof gray);
  }
  const auto label = std::to_integer<std::int32_t>(encoded.back());
  std::memcpy(value.data() + (encoded.size() - 1) * sizeof label, &label, sizeof label);
  return value_bytes();
}

std::string ImageStore::get(const std::string& name) const {
  if (server_bytes_ > 0) return get_by_http(name);
  std::ifstream in(std::filesystem::path(place_) / name, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) throw std::runtime_error("cannot read " + name + " in " + place_ + ": make a store by --make");
  return bytes;
}

/// Fetches a file. Each file has its own connection, which the server closes after it (HTTP 1.0).
std::string ImageStore::get_by_http(const std::string& name) const {
  const auto complain = [&](const std::string& what) {
    throw std::runtime_error("cannot read " + place_ + "/" + name + ": " + what);
  };
  const auto shut = [](const int* file) { close(*file); };
  const int connection = socket(server_.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const std::unique_ptr<const int, decltype(shut)> closes(&connection, shut);
  const std::string request = "GET /" + name + " HTTP/1.0\r\n\r\n";
  if (connect(connection, reinterpret_cast<const sockaddr*>(&server_), server_bytes_) != 0 ||
      send(connection, request.data(), request.size(), MSG_NOSIGNAL) != std::ssize(request))
    complain(std::strerror(errno));
  std::string answer;
  std::array<char, 16384> some{};
  ssize_t got = 0;
  while ((got = recv(connection, some.data(), some.size(), 0)) > 0) answer.append(some.data(), static_cast<std::size_t>(got));
  if (got < 0) complain(std::strerror(errno));
  const std::size_t header = answer.find("\r\n\r\n");
  if (header == std::string::npos || answer.find(" 200 ") > answer.find("\r\n")) complain(answer.substr(0, answer.find("\r\n")));
  return answer.substr(header + 4);
}

}  // namespace sample_cache
