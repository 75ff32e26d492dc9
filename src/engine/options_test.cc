#include "kvern/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kvern
