#include "engine/key_fields.h"

#include <gtest/gtest.h>

#include "engine/cache_plan.h"

namespace kvern {
namespace {

// As Gemma 3: some layers see all, the others a window, each with a rotation of its own.
ModelConfig TwoGroups() {
  ModelConfig model;
  model.num_kv_heads = 1;
  model.head_dim = 64;
  model.context_tokens = 4096;
  model.rope = {.dim = 64, .base = 1e6, .linear_factor = 8, .factors = {}};
  model.window_rope = {.dim = 64, .base = 1e4, .linear_factor = 1, .factors = {}};
  model.layer_groups = {{.window = 0, .num_layers = 3}, {.window = 512, .num_layers = 15}};
  return model;
}

TEST(KeyFieldsTest, EachGroupHasItsOwnRotationAndWindow) {
  EngineOptions options;
  options.cache.k_type = KvType::kI8;
  options.cache.window_tokens = 1024;
  options.cache.num_sinks = 4;
  const ModelConfig model = TwoGroups();

  const KeyFields fields = MakeKeyFields(options, model, MakeCacheSpec(options, model).value(), "digest");

  EXPECT_EQ(fields.model_digest, "digest");
  EXPECT_EQ(fields.k_type, KvType::kI8);
  EXPECT_EQ(fields.block_size, 64u);
  ASSERT_EQ(fields.groups.size(), 2u);
  EXPECT_EQ(fields.groups[0].num_layers, 3u);
  EXPECT_EQ(fields.groups[0].rope.base, 1e6);
  EXPECT_EQ(fields.groups[0].rope.linear_factor, 8);
  EXPECT_EQ(fields.groups[0].window, 1024u);
  EXPECT_TRUE(fields.groups[0].sees_pinned);
  EXPECT_EQ(fields.groups[1].rope.base, 1e4);
  EXPECT_EQ(fields.groups[1].window, 512u);
  EXPECT_FALSE(fields.groups[1].sees_pinned);
  ASSERT_EQ(fields.pinned.size(), 1u);
  EXPECT_EQ(fields.pinned[0].end, 4u);
}

TEST(KeyFieldsTest, OptionsThatChangeBytesChangeKeysAndPlacementsDoNot) {
  const ModelConfig model = TwoGroups();
  const auto root = [&](const EngineOptions& options) {
    return RootKey(MakeKeyFields(options, model, MakeCacheSpec(options, model).value(), "d"), 0, "");
  };
  const EngineOptions plain;
  EngineOptions f32, sinks, contiguous, threads;
  f32.activations = ActivationMode::kF32;
  sinks.cache.window_tokens = 1024;
  sinks.cache.num_sinks = 4;
  contiguous.cache.placement = "contiguous";
  threads.num_threads = 7;
  threads.prefill_chunk = 33;

  EXPECT_NE(root(f32), root(plain));
  EXPECT_NE(root(sinks), root(plain));
  EXPECT_EQ(root(contiguous), root(plain));
  EXPECT_EQ(root(threads), root(plain));
}

}  // namespace
}  // namespace kvern
