// Random operations on the prefix cache against a naive picture of it.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/xorshift.h"
#include "tests/support/prefix_cache_model.h"

namespace kvern {
namespace {

TEST(PrefixCacheModelTest, RandomOperationsFindWhatANaiveMapFinds) {
  uint64_t hit_tokens = 0, copied_tokens = 0, num_evicted = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    XorShift64 random(seed);
    std::vector<uint8_t> bytes(20'000);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.Next32());
    Source source(bytes);
    PrefixCacheModel model(source);

    for (int i = 0; i < 300; ++i) {
      const auto error = model.Step();
      ASSERT_FALSE(error.has_value()) << "seed " << seed << ", step " << i << ": " << *error;
    }
    hit_tokens += model.counters().hit_tokens;
    copied_tokens += model.counters().copied_tokens;
    num_evicted += model.counters().evicted[0] + model.counters().evicted[1];
    const auto error = model.Finish();
    ASSERT_FALSE(error.has_value()) << "seed " << seed << ": " << *error;
  }

  // It does happen.
  EXPECT_GT(hit_tokens, 50'000u);
  EXPECT_GT(copied_tokens, 10'000u);
  EXPECT_GT(num_evicted, 1'000u);
}

}  // namespace
}  // namespace kvern
