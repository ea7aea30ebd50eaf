// packing.hpp: values as bytes that travel between the ranks of one job, which all run the same build.
#pragma once

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "collectives/blobs.hpp"

namespace weir::checkpoint {

/// Appends values to `blob`.
class Packer {
 public:
  explicit Packer(Blob& blob) : blob_(blob) {}
  template <class... T>
  void operator()(const T&... values) {
    (travel(*this, values), ...);
  }
  void bytes(const void* from, std::size_t size) {
    const auto* const begin = static_cast<const std::uint8_t*>(from);
    blob_.insert(blob_.end(), begin, begin + size);
  }

 private:
  Blob& blob_;
};

/// Takes values in the order in which they were packed.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::uint8_t> blob) : left_(blob) {}
  template <class... T>
  void operator()(T&... values) {
    (travel(*this, values), ...);
  }
  void bytes(void* to, std::size_t size) {
    if (size > 0) std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
  }
  [[nodiscard]] bool empty() const { return left_.empty(); }

 private:
  std::span<const std::uint8_t> left_;
};

/// Packs or unpacks plain values, texts, lists, maps, variants, and classes whose fields(visit) passes all that travels to visit.
template <class Pack, class T>
void travel(Pack& pack, T& x) {
  constexpr bool unpacks = !std::is_const_v<T>;
  if constexpr (std::is_trivially_copyable_v<T>) {
    pack.bytes(&x, sizeof x);
  } else if constexpr (requires { x.data(); }) {
    std::size_t size = x.size();
    pack(size);
    if constexpr (unpacks) x.resize(size);
    if constexpr (std::is_trivially_copyable_v<typename T::value_type>)
      pack.bytes(x.data(), size * sizeof *x.data());
    else
      for (auto& element : x) pack(element);
  } else if constexpr (requires { x.begin(); }) {
    std::size_t size = x.size();
    pack(size);
    if constexpr (unpacks) {
      for (typename T::key_type key; size > 0; --size) {
        pack(key);
        pack(x[key]);
      }
    } else {
      for (const auto& [key, value] : x) pack(key, value);
    }
  } else if constexpr (requires { x.index(); }) {
    std::size_t index = x.index();
    pack(index);
    if constexpr (unpacks) {
      if (index == 0) x.template emplace<0>();
      if (index == 1) x.template emplace<1>();
      if (index == 2) x.template emplace<2>();
    }
    std::visit([&](auto& value) { pack(value); }, x);
  } else {
    std::remove_const_t<T>::fields(x, [&](auto&... fields) { pack(fields...); });
  }
}

template <class T>
[[nodiscard]] Blob packed(const T& x) {
  Blob blob;
  Packer{blob}(x);
  return blob;
}
template <class T>
[[nodiscard]] T unpacked(std::span<const std::uint8_t> blob) {
  T x;
  Unpacker{blob}(x);
  return x;
}

}  // namespace weir::checkpoint
