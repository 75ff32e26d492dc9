// How keys and how values are stored, as one thing to choose and to compare.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kvern/options.h"

namespace kvern::cli {

struct CodecPair {
  KvType k = KvType::kF16;
  KvType v = KvType::kF16;
  bool operator==(const CodecPair&) const = default;
};

// "int8" where both are the same, "k8v4" for int8 keys with int4 values, else "f16/int8": keys first.
std::string NameOf(const CodecPair& pair);
// The inverse. kInvalidArgument says which part was found and what is known.
Result<CodecPair> ParseCodecPair(std::string_view name);

// Every type of this build for both, in the order of KvType, then k8v4 where its parts are there.
std::vector<CodecPair> AllCodecPairs();

}  // namespace kvern::cli
