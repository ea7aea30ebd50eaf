// test_group_rows.cpp: equal ids are grouped in the order of the ids, members in the order of the list.
#include <map>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/cuda_kernel_set.hpp"

using namespace weir;
using test::OnDevice;
using Ids = std::vector<std::uint32_t>;

TEST_CASE("group_rows groups equal ids", "[kernels]") {
  std::mt19937 random(1);
  for (const std::int64_t count : {0, 1, 2, 1023, 4096, 4097, 30011}) {
    for (const std::uint32_t range : {1u, 2u, 50u, 20000u, ~0u}) {
      Ids ids(static_cast<std::size_t>(count));
      for (std::uint32_t& id : ids)
        id = range == ~0u ? static_cast<std::uint32_t>(random()) : static_cast<std::uint32_t>(random() % range);
      std::map<std::uint32_t, Ids> members;
      for (std::size_t i = 0; i < ids.size(); ++i) members[ids[i]].push_back(static_cast<std::uint32_t>(i));
      Ids expected_ids, expected_order, expected_first{0};
      for (const auto& [id, of_id] : members) {
        expected_ids.push_back(id);
        expected_order.insert(expected_order.end(), of_id.begin(), of_id.end());
        expected_first.push_back(static_cast<std::uint32_t>(expected_order.size()));
      }
      Ids distinct(expected_ids.size()), order(ids.size()), first(expected_first.size());
      const auto size = [](const Ids& list) { return static_cast<std::int64_t>(list.size()); };
      OnDevice<const std::uint32_t> in(ids.data(), count);
      OnDevice<std::uint32_t> d(distinct.data(), size(distinct)), o(order.data(), size(order)), f(first.data(), size(first));
      test::Delivered<std::int64_t> groups;
      test::TestQueue queue(0, kernels::cuda::group_scratch(count));
      kernels::cuda::group_rows(queue, in.get(), count, d.get(), o.get(), f.get(), groups.get());
      in.fetch(), d.fetch(), o.fetch(), f.fetch();
      INFO("count " << count << ", range " << range);
      REQUIRE(groups.fetch() == size(expected_ids));
      REQUIRE(distinct == expected_ids);
      REQUIRE(order == expected_order);
      REQUIRE(first == expected_first);
    }
  }
}
