#include "cli/codec_pair.h"

#include <optional>

#include "cli/engine_flags.h"
#include "kvern/model_info.h"

namespace kvern::cli {
namespace {

constexpr std::string_view kK8V4 = "k8v4";

std::optional<CodecPair> K8V4() {
  const Result<KvType> k = ParseKvType("int8");
  const Result<KvType> v = ParseKvType("int4");
  if (!k.ok() || !v.ok()) return std::nullopt;
  return CodecPair{*k, *v};
}

}  // namespace

std::string NameOf(const CodecPair& pair) {
  CacheOptions cache;
  cache.k_type = pair.k;
  cache.v_type = pair.v;
  return KvTypesName(cache);
}

Result<CodecPair> ParseCodecPair(std::string_view name) {
  if (const std::optional<CodecPair> preset = K8V4(); preset && name == kK8V4) return *preset;
  const size_t slash = name.find('/');
  CodecPair pair;
  KVERN_ASSIGN_OR_RETURN(pair.k, ParseKvType(name.substr(0, slash)));
  KVERN_ASSIGN_OR_RETURN(
      pair.v, slash == std::string_view::npos ? Result<KvType>(pair.k) : ParseKvType(name.substr(slash + 1)));
  return pair;
}

std::vector<CodecPair> AllCodecPairs() {
  std::vector<CodecPair> pairs;
  for (const KvType type : AllKvTypes()) pairs.push_back({type, type});
  if (const std::optional<CodecPair> preset = K8V4()) pairs.push_back(*preset);
  return pairs;
}

}  // namespace kvern::cli
