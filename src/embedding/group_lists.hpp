// group_lists.hpp: groups of rows as kernels take them.
#pragma once

#include <cstdint>

namespace weir::embedding {

/// Keys of groups and their members, as in RowGroups. The lists belong to a RowWork.
struct GroupLists {
  const std::uint32_t *keys, *first, *order;
  std::int64_t count;
};

}  // namespace weir::embedding
