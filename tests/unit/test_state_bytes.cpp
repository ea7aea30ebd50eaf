// A saved state as bytes: written states are read again, and damage at any place is refused.
#include "base/state_bytes.hpp"

#include <cstring>
#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace weir;

namespace {

struct Subject {
  struct State {
    bool flag = false;
    std::int64_t steps = 0;
    double threshold = 0;
    void visit(StateVisitor& visitor) {
      visitor.value("flag", flag);
      visitor.value("steps", steps);
      visitor.value("threshold", threshold);
    }
  };
  State state;
  std::vector<float> residual;

  void visit_state(StateVisitor& visitor) {
    visitor.text("algorithm", "oktopk");
    visitor.state(state);
    const StateVisitor::Scope scope(visitor, "memory");
    visitor.array("residual", residual.data(), static_cast<std::int64_t>(residual.size()),
                  [](void* to, const void* from, std::int64_t bytes) { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }
};

std::vector<std::byte> saved(Subject& subject) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(state_bytes(subject)));
  save_state(subject, bytes, "the subject");
  return bytes;
}

std::string error_of(std::span<const std::byte> bytes, std::size_t elements) {
  Subject subject{{}, std::vector<float>(elements)};
  try {
    restore_state(subject, bytes, "the subject");
  } catch (const Error& error) {
    REQUIRE(error.status() == WEIR_ERR_ARGUMENT);
    REQUIRE(subject.state.steps == 0);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("what was saved is restored, whatever its length", "[state_bytes]") {
  for (const std::size_t elements : {0, 1, 2, 3, 1001}) {
    Subject first{{true, 17, 0.25}, std::vector<float>(elements, 3.5F)}, second{{}, std::vector<float>(elements)};
    const std::vector<std::byte> bytes = saved(first);
    REQUIRE(bytes.size() % 8 == 0);
    restore_state(second, bytes, "the subject");
    REQUIRE(second.state.flag);
    REQUIRE(second.state.steps == 17);
    REQUIRE(second.state.threshold == 0.25);
    REQUIRE(second.residual == first.residual);
    REQUIRE(saved(second) == bytes);
  }
}

TEST_CASE("a state that is damaged anywhere is refused, and changes nothing", "[state_bytes]") {
  Subject subject{{true, 17, 0.25}, std::vector<float>(5, 1.0F)};
  const std::vector<std::byte> whole = saved(subject);
  REQUIRE(error_of(whole, 5).empty());
  for (std::size_t length = 0; length < whole.size(); ++length) REQUIRE(!error_of(std::span(whole).first(length), 5).empty());
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::vector<std::byte> changed = whole;
    changed[at] ^= std::byte{4};
    REQUIRE(!error_of(changed, 5).empty());
  }
  REQUIRE(error_of(whole, 6).find("it has 5 elements in the state and 6 here") != std::string::npos);
}

TEST_CASE("a state needs exactly its bytes", "[state_bytes]") {
  Subject subject{{}, std::vector<float>(5)};
  std::vector<std::byte> bytes(static_cast<std::size_t>(state_bytes(subject)) + 8);
  REQUIRE_THROWS_AS(save_state(subject, bytes, "the subject"), Error);
  REQUIRE_THROWS_AS(save_state(subject, std::span<std::byte>(), "the subject"), Error);
}
