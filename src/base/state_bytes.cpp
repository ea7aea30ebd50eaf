#include "base/state_bytes.hpp"

#include <cstring>

namespace weir {
namespace {

constexpr std::string_view magic = "WEIRSTAT";
constexpr std::int32_t state_version = 1;
constexpr std::int64_t head_bytes = 16, tail_bytes = 8, field_bytes = 16;
constexpr std::int64_t longest_name = 4096;

constexpr std::int64_t filled_up(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Returns FNV-1a over words of 8 bytes; `bytes` is a multiple of 8.
std::uint64_t checksum(const std::byte* data, std::int64_t bytes) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (std::int64_t at = 0; at < bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    sum = (sum ^ word) * 0x100000001b3;
    sum ^= sum >> 29;
  }
  return sum;
}

template <class V>
void store(std::byte* at, V x) {
  std::memcpy(at, &x, sizeof x);
}

/// Reads from the front of bytes.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, std::string_view subject) : bytes_(bytes), subject_(subject) {}
  [[noreturn]] void damaged(std::string_view why) const {
    fail(WEIR_ERR_ARGUMENT, "the state for {} is damaged: {}", subject_, why);
  }
  /// Returns the next `count` bytes and skips their padding.
  const std::byte* take(std::int64_t count) {
    const auto left = static_cast<std::int64_t>(bytes_.size());
    if (count < 0 || count > left || filled_up(count) > left) damaged("it ends within a field");
    const std::byte* const at = bytes_.data();
    bytes_ = bytes_.subspan(static_cast<std::size_t>(filled_up(count)));
    return at;
  }
  [[nodiscard]] bool done() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  std::string_view subject_;
};

template <class V>
V load(const std::byte* at) {
  V x;
  std::memcpy(&x, at, sizeof x);
  return x;
}

StateField read_field(Reader& reader) {
  const std::byte* const head = reader.take(field_bytes);
  const auto name_length = load<std::int32_t>(head), type = load<std::int32_t>(head + 4);
  const auto count = load<std::int64_t>(head + 8);
  if (name_length < 1 || name_length > longest_name) reader.damaged("a field's name has no sensible length");
  if (type < 0 || type > static_cast<std::int32_t>(StateType::uint8)) reader.damaged("a field has no known type");
  StateField field;
  field.type = static_cast<StateType>(type);
  field.count = count;
  field.name.assign(reinterpret_cast<const char*>(reader.take(name_length)), static_cast<std::size_t>(name_length));
  constexpr std::int64_t most = std::int64_t{1} << 59;
  if (count < 0 || count > most) reader.damaged(fmt::format("field '{}' has no sensible length", field.name));
  const std::int64_t bytes = count * state_type_bytes(field.type);
  const std::byte* const data = reader.take(bytes);
  field.bytes = Buffer<std::byte>(bytes);
  if (bytes > 0) std::memcpy(field.bytes.data(), data, static_cast<std::size_t>(bytes));
  return field;
}

}  // namespace

void StateMeasurer::field(FieldVisit visit, void* /*data*/, const Copy* /*copy*/) {
  bytes_ += field_bytes + filled_up(static_cast<std::int64_t>(visit.name.size())) + filled_up(visit.bytes());
}

void StateMeasurer::text_field(FieldVisit visit, std::string_view /*here*/) { field(std::move(visit), nullptr, nullptr); }

StateWriter::StateWriter(std::span<std::byte> to) : StateVisitor("what is saved"), to_(to), used_(head_bytes) {}

std::byte* StateWriter::take(std::int64_t bytes) {
  const std::int64_t whole = filled_up(bytes);
  if (used_ + whole + tail_bytes > static_cast<std::int64_t>(to_.size()))
    fail(WEIR_ERR_INTERNAL, "a state has grown while it was saved");
  std::byte* const at = to_.data() + used_;
  if (whole > bytes) std::memset(at + bytes, 0, static_cast<std::size_t>(whole - bytes));
  used_ += whole;
  return at;
}

void StateWriter::field(FieldVisit visit, void* data, const Copy* copy) {
  std::byte* const head = take(field_bytes);
  store(head, static_cast<std::int32_t>(visit.name.size()));
  store(head + 4, static_cast<std::int32_t>(visit.type));
  store(head + 8, visit.count);
  std::memcpy(take(static_cast<std::int64_t>(visit.name.size())), visit.name.data(), visit.name.size());
  const std::int64_t bytes = visit.bytes();
  std::byte* const to = take(bytes);
  if (bytes > 0 && copy != nullptr)
    (*copy)(to, data, bytes);
  else if (bytes > 0)
    std::memcpy(to, data, static_cast<std::size_t>(bytes));
  ++fields_;
}

void StateWriter::text_field(FieldVisit visit, std::string_view here) {
  std::string copy(here);
  field(std::move(visit), copy.data(), nullptr);
}

void StateWriter::finish() {
  std::memcpy(to_.data(), magic.data(), magic.size());
  store(to_.data() + 8, state_version);
  store(to_.data() + 12, fields_);
  store(to_.data() + used_, checksum(to_.data(), used_));
}

SavedState read_state(std::span<const std::byte> bytes, std::string_view subject) {
  Reader whole(bytes, subject);
  const auto size = static_cast<std::int64_t>(bytes.size());
  if (bytes.data() == nullptr || size < head_bytes + tail_bytes || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    fail(WEIR_ERR_ARGUMENT, "what was given as the state for {} is not a state: a state begins with {}", subject, magic);
  if (const auto found = load<std::int32_t>(bytes.data() + 8); found != state_version)
    fail(WEIR_ERR_ARGUMENT, "the state for {} has version {}: this library reads version {}", subject, found, state_version);
  if (size % 8 != 0) whole.damaged(fmt::format("it has {} bytes, which is no multiple of 8", size));
  if (load<std::uint64_t>(bytes.data() + size - tail_bytes) != checksum(bytes.data(), size - tail_bytes))
    whole.damaged("its checksum does not fit: it is truncated or was changed");

  Reader reader(bytes.subspan(head_bytes, static_cast<std::size_t>(size - head_bytes - tail_bytes)), subject);
  SavedState state;
  const auto fields = load<std::int32_t>(bytes.data() + 12);
  for (std::int32_t i = 0; i < fields; ++i) state.fields.push_back(read_field(reader));
  if (!reader.done()) reader.damaged("it has bytes behind its last field");
  return state;
}

}  // namespace weir
