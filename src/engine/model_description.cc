#include "engine/model_description.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/checked_math.h"
#include "engine/vocab_from_gguf.h"
#include "kernels/kv_codec.h"
#include "kvcache/codecs/codec_registry.h"
#include "model/model_config.h"
#include "platform/file_system.h"
#include "tensor/dtype.h"

namespace kvern {
namespace {

constexpr size_t kMaxShownBytes = 200;

// Strings are cut on a character's border; the rest is shortened by GgufValue.
std::string ForPeople(const GgufValue& value) {
  std::string text = value.ToString();
  if (text.size() <= kMaxShownBytes) return text;
  size_t end = kMaxShownBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "... (" + std::to_string(text.size()) + " bytes)";
}

// Types in the order in which the file first has them.
std::vector<TensorTypeInfo> TensorTypes(const GgufFile& file) {
  std::vector<TensorTypeInfo> types;
  std::map<uint32_t, size_t> index;
  for (const GgufTensorInfo& tensor : file.tensors()) {
    const auto [it, is_new] = index.try_emplace(tensor.ggml_type, types.size());
    if (is_new) {
      types.push_back(
          {.type = GgmlTypeName(tensor.ggml_type), .is_supported = DTypeFromGgmlId(tensor.ggml_type).has_value()});
    }
    TensorTypeInfo& type = types[it->second];
    ++type.num_tensors;
    type.num_bytes += tensor.num_bytes;
  }
  return types;
}

Status CheckTensorTypes(const GgufFile& file) {
  for (const GgufTensorInfo& tensor : file.tensors()) {
    if (DTypeFromGgmlId(tensor.ggml_type)) continue;
    return Status::Unsupported("tensor " + QuotedForMessage(tensor.name) + " is of type " +
                               GgmlTypeName(tensor.ggml_type) + ", supported are " + SupportedDTypeNames());
  }
  return Status::Ok();
}

Status CheckTokenizer(const GgufFile& file) {
  KVERN_ASSIGN_OR_RETURN(VocabData vocab, VocabFromGguf(file));
  return MakeTokenizer(std::move(vocab)).status();
}

std::string StringOrEmpty(const GgufFile& file, std::string_view key) {
  const Result<std::string_view> value = file.GetStringOr(key, "");
  return value.ok() ? std::string(*value) : "";
}

// tokenizer.chat_template, and tokenizer.chat_template.NAME for each further one.
void CopyChatTemplates(const GgufFile& file, ModelInfo& info) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  info.chat_template = StringOrEmpty(file, kKey);
  for (const GgufMetadata& entry : file.metadata()) {
    const std::string_view key = entry.key;
    const auto text = entry.value.AsString();
    if (!text || !key.starts_with(kKey) || key.size() < kKey.size() + 2 || key[kKey.size()] != '.') continue;
    info.more_chat_templates.emplace_back(key.substr(kKey.size() + 1), *text);
  }
}

void CopyShape(const ModelConfig& config, ModelInfo& info) {
  info.num_layers = config.num_layers;
  info.width = config.width;
  info.ffn_width = config.ffn_width;
  info.num_heads = config.num_heads;
  info.num_kv_heads = config.num_kv_heads;
  info.head_dim = config.head_dim;
  info.vocab_size = config.vocab_size;
  info.context_tokens = config.context_tokens;
  info.rope_base = config.RopeOf(config.layer_groups[0]).base;
  for (const LayerGroup& group : config.layer_groups) {
    info.layer_groups.push_back({group.num_layers, group.window, config.RopeOf(group).base});
  }
}

}  // namespace

ModelInfo DescribeModel(const GgufFile& file) {
  ModelInfo info;
  info.path = file.path();
  info.file_bytes = file.file_bytes();
  info.architecture = StringOrEmpty(file, "general.architecture");
  info.name = StringOrEmpty(file, "general.name");
  for (const GgufMetadata& entry : file.metadata()) info.metadata.emplace_back(entry.key, ForPeople(entry.value));
  CopyChatTemplates(file, info);
  info.tensor_types = TensorTypes(file);
  for (const GgufTensorInfo& tensor : file.tensors()) info.num_parameters += tensor.num_elements();

  const Result<ModelConfig> config = ReadModelConfig(file);
  if (config.ok()) CopyShape(*config, info);
  Status status = config.status();
  if (status.ok()) status = CheckTensorTypes(file);
  info.is_supported = status.ok();
  info.unsupported_reason = status.message();
  return info;
}

uint64_t ModelInfo::KvBytesPerToken(KvType k_type, KvType v_type) const {
  if (!CheckHeadDim(k_type, head_dim).ok() || !CheckHeadDim(v_type, head_dim).ok()) return 0;
  return uint64_t{num_layers} * num_kv_heads * (KvHeadGranuleBytes(k_type, v_type, head_dim) / kGranuleSlots);
}

uint64_t ModelInfo::KvBytesOfSequence(uint64_t num_tokens, uint32_t block_size, KvType k_type, KvType v_type) const {
  uint64_t layer_blocks = 0;  // Over all layers.
  for (const LayerGroupInfo& group : layer_groups) {
    uint64_t num_blocks = CeilDiv(num_tokens, block_size);
    if (group.window_tokens != 0) num_blocks = std::min(num_blocks, CeilDiv(group.window_tokens, block_size) + 1);
    layer_blocks += group.num_layers * num_blocks;
  }
  return num_layers == 0 ? 0 : layer_blocks * block_size * (KvBytesPerToken(k_type, v_type) / num_layers);
}

Result<ModelInfo> InspectModel(const std::string& path) {
  KVERN_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(PosixFileSystem(), path));
  ModelInfo info = DescribeModel(file);
  if (info.is_supported) {
    const Status status = CheckTokenizer(file);
    info.is_supported = status.ok();
    info.unsupported_reason = status.message();
  }
  return info;
}

}  // namespace kvern
