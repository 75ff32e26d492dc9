// ConfigKeys: the metadata `architecture.suffix` of one model file, read and checked; what architectures read their
// shape with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gguf/gguf_file.h"
#include "kvern/status.h"
#include "model/model_config.h"

namespace kvern {

inline constexpr uint64_t kMaxContextTokens = 1 << 26;  // Far beyond any model.

// Errors name file and key, what was found and what was expected.
class ConfigKeys {
 public:
  // `file` must outlive the keys.
  ConfigKeys(const GgufFile& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  std::string Name(std::string_view suffix) const { return prefix_ + std::string(suffix); }
  bool Has(std::string_view suffix) const { return file_.Has(Name(suffix)); }

  Result<uint32_t> Positive(std::string_view suffix, uint64_t max) const {
    KVERN_ASSIGN_OR_RETURN(const uint64_t value, file_.GetUint(Name(suffix), max));
    if (value == 0) return Wrong(suffix, "0", "at least 1");
    return static_cast<uint32_t>(value);
  }
  Result<uint32_t> PositiveOr(std::string_view suffix, uint32_t fallback, uint64_t max) const {
    return Has(suffix) ? Positive(suffix, max) : Result<uint32_t>(fallback);
  }
  // A key that may hold one value per layer; kvern runs models where these are all equal.
  Result<uint32_t> SameInAllLayers(std::string_view suffix, uint32_t num_layers, uint64_t max) const {
    KVERN_ASSIGN_OR_RETURN(const std::vector<uint64_t> values, file_.GetUintPerLayer(Name(suffix), num_layers, max));
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    if (*low == 0) return Wrong(suffix, "0", "at least 1");
    if (*low != *high) {
      return Status::Unsupported(file_.path() + ": " + Name(suffix) + " differs between layers (" +
                                 std::to_string(*low) + " to " + std::to_string(*high) +
                                 "); kvern runs models whose layers have one shape");
    }
    return static_cast<uint32_t>(*low);
  }
  Result<double> FloatOr(std::string_view suffix, double fallback) const {
    return file_.GetFloatOr(Name(suffix), fallback);
  }
  Result<std::string_view> StringOr(std::string_view suffix, std::string_view fallback) const {
    return file_.GetStringOr(Name(suffix), fallback);
  }

  Status Wrong(std::string_view suffix, const std::string& found, const std::string& expected) const {
    return Status::Corruption(file_.path() + ": " + Name(suffix) + " is " + found + ", expected " + expected);
  }
  Status Unsupported(std::string_view suffix, const std::string& found, const std::string& supported) const {
    return Status::Unsupported(file_.path() + ": " + Name(suffix) + " is " + found + "; kvern supports " + supported);
  }

 private:
  const GgufFile& file_;
  const std::string prefix_;
};

// The base under `suffix`, 10,000 where it is absent.
Result<double> ReadRopeBase(const ConfigKeys& keys, std::string_view suffix);

// The keys that all architectures have in common, every limit that later code relies on checked; all layers in one
// group that sees everything.
Result<ModelConfig> ReadDecoderConfig(const GgufFile& file);

}  // namespace kvern
