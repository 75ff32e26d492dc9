// Operations on the prefix cache, in the order of the input: what is found, and what stands in every block, is as a
// naive picture says (tests/support/prefix_cache_model.h).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include "tests/support/prefix_cache_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvern::Source source({data, size});
  kvern::PrefixCacheModel model(source);
  const auto check = [](const std::optional<std::string>& error) {
    if (!error.has_value()) return;
    std::fprintf(stderr, "prefix_index: %s\n", error->c_str());
    std::abort();
  };
  for (size_t i = 0; i < size / 4 + 8; ++i) check(model.Step());
  check(model.Finish());
  return 0;
}
