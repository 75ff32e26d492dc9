// Keys of blocks against vectors that scripts/check_block_keys.py works out on its own: they go with what is stored and
// travels, so they change only with the format (docs/formats/block_key.md).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kvcache/block_key.h"

namespace kvern {
namespace {

constexpr char kPath[] = "tests/golden/block_keys.txt";

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

uint32_t Number(const std::string& text) { return static_cast<uint32_t>(std::strtoul(text.c_str(), nullptr, 10)); }

GroupKeyFields Group(const std::string& text) {
  const std::vector<std::string> parts = Split(text, ';');
  const std::vector<std::string> shape = Split(parts.at(0), ','), rope = Split(parts.at(1), ',');
  GroupKeyFields group = {
      .num_layers = Number(shape.at(0)), .num_kv_heads = Number(shape.at(1)), .head_dim = Number(shape.at(2))};
  group.rope = {.dim = Number(rope.at(0)),
                .base = std::strtod(rope.at(1).c_str(), nullptr),
                .linear_factor = std::strtod(rope.at(2).c_str(), nullptr),
                .factors = {}};
  for (const std::string& factor : Split(parts.at(2), ',')) {
    group.rope.factors.push_back(std::strtof(factor.c_str(), nullptr));
  }
  group.window = Number(parts.at(3));
  group.sees_pinned = parts.at(4) == "1";
  return group;
}

struct Vector {
  KeyFields fields;
  uint32_t index = 0;
  std::string salt;

  void Set(const std::string& name, const std::string& value) {
    if (name == "model") fields.model_digest = value;
    if (name == "numerics") fields.numerics_version = Number(value);
    if (name == "activations") fields.activations = value == "f32" ? ActivationMode::kF32 : ActivationMode::kInt8;
    if (name == "k") fields.k_type = ParseKvType(value).value();
    if (name == "v") fields.v_type = ParseKvType(value).value();
    if (name == "block_size") fields.block_size = Number(value);
    if (name == "group") fields.groups.push_back(Group(value));
    if (name == "index") index = Number(value);
    if (name == "salt") salt = value;
    const std::vector<std::string> parts = name == "pinned" ? Split(value, ',') : std::vector<std::string>();
    for (size_t i = 0; i + 1 < parts.size(); i += 2) fields.pinned.push_back({Number(parts[i]), Number(parts[i + 1])});
  }
};

TEST(BlockKeysGoldenTest, KeysAreThoseOfTheVectors) {
  std::ifstream file(kPath);
  ASSERT_TRUE(file) << kPath << ": run from the root of the repository";
  Vector vector;
  BlockKey key;
  int num_keys = 0;
  for (std::string line; std::getline(file, line);) {
    const size_t equals = line.find('=');
    if (line.empty()) vector = {};
    if (line.empty() || line[0] == '#') continue;
    const std::string name = line.substr(0, equals), value = line.substr(equals + 1);
    if (name == "root") {
      key = RootKey(vector.fields, vector.index, vector.salt);
      EXPECT_EQ(HexOf(key), value) << "root " << num_keys;
      ++num_keys;
    } else if (name == "block") {
      std::vector<TokenId> tokens;
      for (const std::string& token : Split(Split(value, ' ').at(0), ',')) {
        tokens.push_back(static_cast<TokenId>(std::strtol(token.c_str(), nullptr, 10)));
      }
      key = ChainKey(key, tokens);
      EXPECT_EQ(HexOf(key), Split(value, ' ').at(1)) << "block " << num_keys;
      ++num_keys;
    } else {
      vector.Set(name, value);
    }
  }
  EXPECT_EQ(num_keys, 8);
}

}  // namespace
}  // namespace kvern
