#include "kvcache/block_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

namespace kvern {
namespace {

KeyFields Fields() {
  return {.model_digest = "abc",
          .block_size = 64,
          .groups = {{.num_layers = 2, .num_kv_heads = 1, .head_dim = 64, .rope = {.dim = 64, .base = 10000}}, {}},
          .pinned = {{0, 4}}};
}

TEST(BlockKeyTest, EveryFieldChangesTheRoot) {
  const std::vector<std::function<void(KeyFields&)>> changes = {
      [](KeyFields& f) { f.model_digest = "abd"; },
      [](KeyFields& f) { ++f.numerics_version; },
      [](KeyFields& f) { f.activations = ActivationMode::kF32; },
      [](KeyFields& f) { f.k_type = KvType::kI8; },
      [](KeyFields& f) { f.v_type = KvType::kI8; },
      [](KeyFields& f) { f.block_size = 32; },
      [](KeyFields& f) { f.groups[0].num_layers = 3; },
      [](KeyFields& f) { f.groups[0].num_kv_heads = 3; },
      [](KeyFields& f) { f.groups[0].head_dim = 32; },
      [](KeyFields& f) { f.groups[0].rope.dim = 32; },
      [](KeyFields& f) { f.groups[0].rope.base = 20000; },
      [](KeyFields& f) { f.groups[0].rope.linear_factor = 2; },
      [](KeyFields& f) {
        f.groups[0].rope.factors = {1, 2};
      },
      [](KeyFields& f) { f.groups[0].window = 512; },
      [](KeyFields& f) { f.groups[1].window = 512; },  // What another group sees reaches this one too.
      [](KeyFields& f) { f.groups[0].sees_pinned = true; },
      [](KeyFields& f) { f.groups.pop_back(); },
      [](KeyFields& f) { f.pinned = {}; },
      [](KeyFields& f) {
        f.pinned = {{0, 5}};
      },
  };
  std::set<BlockKey> keys = {RootKey(Fields(), 0, "")};

  for (const auto& change : changes) {
    KeyFields fields = Fields();
    change(fields);
    keys.insert(RootKey(fields, 0, ""));
  }
  keys.insert(RootKey(Fields(), 1, ""));
  keys.insert(RootKey(Fields(), 0, "a"));

  EXPECT_EQ(keys.size(), changes.size() + 3);
}

TEST(BlockKeyTest, AKeyIsThatOfItsTokensAndAllBeforeThem) {
  const BlockKey root = RootKey(Fields(), 0, "");
  const std::vector<TokenId> a = {1, 2}, b = {3, 4}, c = {1, 2, 3, 4};

  EXPECT_EQ(ChainKey(root, a), ChainKey(root, a));
  EXPECT_NE(ChainKey(root, a), ChainKey(root, b));
  EXPECT_NE(ChainKey(ChainKey(root, a), b), ChainKey(ChainKey(root, b), b));
  EXPECT_NE(ChainKey(ChainKey(root, a), b), ChainKey(root, c));  // Blocks of other sizes are other blocks.
}

TEST(BlockKeyTest, HexHasTwoDigitsForEachByte) {
  BlockKey key;
  key.bytes[0] = 0xa5;
  key.bytes[31] = 0x0f;

  EXPECT_THAT(HexOf(key), ::testing::StartsWith("a500"));
  EXPECT_THAT(HexOf(key), ::testing::EndsWith("000f"));
}

}  // namespace
}  // namespace kvern
