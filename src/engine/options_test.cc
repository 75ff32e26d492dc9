#include "kvern/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace kvern {
namespace {

using ::testing::HasSubstr;

EngineOptions GoodOptions() {
  EngineOptions options;
  options.model_path = "model.gguf";
  return options;
}

void ExpectRefused(const EngineOptions& options, const std::string& message) {
  const Status status = options.Validate();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(message));
}

TEST(EngineOptionsTest, DefaultsNeedOnlyAModel) {
  EXPECT_TRUE(GoodOptions().Validate().ok());
  ExpectRefused(EngineOptions(), "model_path is empty");
}

TEST(EngineOptionsTest, ValuesOutsideTheirRangeAreRefusedWithTheNumber) {
  EngineOptions options = GoodOptions();
  options.prefill_chunk = 0;
  ExpectRefused(options, "prefill_chunk is 0, expected 1 to 65536");

  options = GoodOptions();
  options.max_sequences = 0;
  ExpectRefused(options, "max_sequences is 0");

  options = GoodOptions();
  options.num_threads = 5000;
  ExpectRefused(options, "num_threads is 5000");

  options = GoodOptions();
  options.cache.block_size = 24;
  ExpectRefused(options, "block_size is 24, expected a multiple of 16 up to 4096");

  options = GoodOptions();
  options.cache.k_type = static_cast<KvType>(8);
  ExpectRefused(options, "k_type is no KvType: 8");

  options = GoodOptions();
  options.activations = static_cast<ActivationMode>(9);
  ExpectRefused(options, "activations is no ActivationMode: 9");
}

TEST(EngineOptionsTest, BlockSizesAreMultiplesOf16) {
  for (const uint32_t block_size : {0u, 7u, 1u << 31}) {
    EngineOptions options = GoodOptions();
    options.cache.block_size = block_size;
    ExpectRefused(options, "block_size is " + std::to_string(block_size));
  }
}

TEST(EngineOptionsTest, WindowsThatCannotBeAreRefusedWithTheNumbers) {
  const auto expect_refused = [](const auto& change, const std::string& message) {
    EngineOptions options = GoodOptions();
    options.cache.window_tokens = 1024;
    change(options.cache);
    ExpectRefused(options, message);
  };

  expect_refused([](CacheOptions& c) { c.window_tokens = 63; }, "window_tokens is 63, smaller than a block of 64");
  expect_refused([](CacheOptions& c) { c.num_sinks = 1025; }, "window_tokens is 1024, smaller than the sinks, 1025");
  expect_refused([](CacheOptions& c) { c.window_tokens = ~0u; }, "window_tokens is 4294967295");
  expect_refused([](CacheOptions& c) { c.global_tokens = {{5, 5}}; }, "global tokens from 5 to before 5");
  expect_refused([](CacheOptions& c) { c.placement = "heap"; }, "placement is 'heap', expected one of paged");
  EngineOptions options = GoodOptions();
  options.cache.num_sinks = 4;
  ExpectRefused(options, "without a window");
}

TEST(CacheOptionsTest, AnUnknownEvictionPolicyIsRefusedWithTheKnownOnes) {
  CacheOptions options;
  options.eviction_policy = "random";

  EXPECT_THAT(options.Validate().message(), testing::HasSubstr("'random', expected one of slru, lru"));
}

}  // namespace
}  // namespace kvern
