#include "kvcache/block_key.h"

#include <openssl/evp.h>

#include <bit>
#include <type_traits>

#include "base/check.h"

namespace kvern {
namespace {

// Raised with the order of bytes inside a block (kernels/kv_view.h).
constexpr uint32_t kBlockLayoutVersion = 1;

enum class Tag : uint8_t {
  kFormat = 0,
  kModelDigest = 1,
  kNumericsVersion = 2,
  kActivations = 3,
  kKCodec = 4,
  kVCodec = 5,
  kBlockLayout = 6,
  kBlockSize = 7,
  kGroupShape = 8,  // These four come once for each layer group.
  kGroupRope = 9,
  kGroupWindow = 10,
  kGroupSeesPinned = 11,
  kPinned = 12,
  kGroup = 13,
  kSalt = 14,
  kParent = 32,
  kTokens = 33,
};

// Bytes to hash. Numbers are little-endian on every machine.
class FieldWriter {
 public:
  void Begin(Tag tag, uint64_t num_bytes) {
    bytes_.reserve(bytes_.size() + 5 + num_bytes);
    Number(static_cast<uint8_t>(tag));
    Number(static_cast<uint32_t>(num_bytes));
  }
  template <typename T>
  void Number(T value) {
    static_assert(std::is_unsigned_v<T>);
    for (size_t i = 0; i < sizeof(T); ++i) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
  }
  template <typename T>
  void Field(Tag tag, T value) {
    Begin(tag, sizeof(T));
    Number(value);
  }
  void Text(Tag tag, std::string_view text) {
    Begin(tag, text.size());
    bytes_.insert(bytes_.end(), text.begin(), text.end());
  }
  void Key(Tag tag, const BlockKey& key) {
    Begin(tag, key.bytes.size());
    bytes_.insert(bytes_.end(), key.bytes.begin(), key.bytes.end());
  }
  void Tokens(Tag tag, std::span<const TokenId> tokens) {
    Begin(tag, tokens.size() * sizeof(uint32_t));
    if constexpr (std::endian::native == std::endian::little && sizeof(TokenId) == sizeof(uint32_t)) {
      const auto* const bytes = reinterpret_cast<const uint8_t*>(tokens.data());
      bytes_.insert(bytes_.end(), bytes, bytes + tokens.size_bytes());
    } else {
      for (const TokenId token : tokens) Number(static_cast<uint32_t>(token));
    }
  }

  BlockKey Hash() const {
    // Found once: looking an algorithm up by name costs more than the hash of a block.
    static const EVP_MD* const kSha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    BlockKey key;
    // Fails only where the library has no SHA-256 at all.
    KVERN_CHECK(kSha256 != nullptr &&
                EVP_Digest(bytes_.data(), bytes_.size(), key.bytes.data(), nullptr, kSha256, nullptr) == 1);
    return key;
  }

 private:
  std::vector<uint8_t> bytes_;
};

void WriteGroup(const GroupKeyFields& group, FieldWriter& out) {
  out.Begin(Tag::kGroupShape, 12);
  out.Number(group.num_layers);
  out.Number(group.num_kv_heads);
  out.Number(group.head_dim);
  const RopeKeyFields& rope = group.rope;
  out.Begin(Tag::kGroupRope, 20 + 4 * rope.factors.size());
  out.Number(rope.dim);
  out.Number(std::bit_cast<uint64_t>(rope.base));
  out.Number(std::bit_cast<uint64_t>(rope.linear_factor));
  for (const float factor : rope.factors) out.Number(std::bit_cast<uint32_t>(factor));
  out.Field(Tag::kGroupWindow, group.window);
  out.Field(Tag::kGroupSeesPinned, static_cast<uint8_t>(group.sees_pinned ? 1 : 0));
}

}  // namespace

BlockKey RootKey(const KeyFields& fields, uint32_t group, std::string_view salt) {
  KVERN_CHECK(group < fields.groups.size());
  FieldWriter out;
  out.Text(Tag::kFormat, "kvern block key 1");
  out.Text(Tag::kModelDigest, fields.model_digest);
  out.Field(Tag::kNumericsVersion, fields.numerics_version);
  out.Text(Tag::kActivations, fields.activations == ActivationMode::kInt8 ? "int8" : "f32");
  out.Text(Tag::kKCodec, KvTypeName(fields.k_type));
  out.Text(Tag::kVCodec, KvTypeName(fields.v_type));
  out.Field(Tag::kBlockLayout, kBlockLayoutVersion);
  out.Field(Tag::kBlockSize, fields.block_size);
  for (const GroupKeyFields& each : fields.groups) WriteGroup(each, out);
  out.Begin(Tag::kPinned, 8 * fields.pinned.size());
  for (const PositionRange& range : fields.pinned) {
    out.Number(range.begin);
    out.Number(range.end);
  }
  out.Field(Tag::kGroup, group);
  out.Text(Tag::kSalt, salt);
  return out.Hash();
}

BlockKey ChainKey(const BlockKey& parent, std::span<const TokenId> tokens) {
  FieldWriter out;
  out.Key(Tag::kParent, parent);
  out.Tokens(Tag::kTokens, tokens);
  return out.Hash();
}

std::string HexOf(const BlockKey& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : key.bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace kvern
