// make_packs FOLDER NAME PACKS [AGE]: writes the first PACKS of a data set of 5 packs into a folder of the sample cache. They were
// last used AGE seconds ago, each a second before the next one. With AGE "writing", the program keeps writing one more.
#include <unistd.h>

#include <cstdlib>

#include "datacache/packs.hpp"

int main(int argc, char** argv) {
  using namespace weir::test;
  if (argc < 4) return 2;
  const std::string folder = argv[1], age_text = argc > 4 ? argv[4] : "0";
  MadeUp data;
  data.set.name = argv[2];
  data.set.identity = "made up for " + data.set.name;
  data.largest = 1000;
  PackFolder packs(folder, 0, data.set);
  const std::int64_t count = std::atoi(argv[3]);
  for (std::int64_t pack = 0; pack < count; ++pack) {
    (void)obtain(packs, data, pack);
    age(data.path_of(folder, pack), std::atoi(age_text.c_str()) + count - pack);
  }
  if (age_text != "writing") return 0;
  (void)packs.obtain(count, [&]() -> Samples {
    set_contents(folder + "/writing", "");
    for (;;) pause();
  });
}
