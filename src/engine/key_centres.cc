#include "engine/key_centres.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/batch_builder.h"
#include "engine/cache_plan.h"
#include "kernels/kv_codec.h"
#include "kvcache/sequence_cache.h"
#include "model/rope.h"
#include "platform/huge_pages.h"

namespace kvern {
namespace {

// A little of everything that models are asked about, in ASCII, which every vocabulary can spell. Another text gives
// other centres: changing it raises the numerics version.
constexpr std::string_view kText =
    "The mill stood where the valley narrows. Farmers brought rye and barley in autumn, waited while the stones "
    "turned, "
    "and carried home what they had brought, only finer. \"You grind it once,\" the miller used to say, \"and then it "
    "is flour for good.\"\n\n"
    "How long does a loaf need? About 40 minutes at 220 degrees, less if it is small:\n"
    "1. Mix 500 g of flour, 350 ml of water, 10 g of salt and a little yeast.\n"
    "2. Let the dough rest for two hours; fold it twice.\n"
    "3. Bake until the crust sounds hollow.\n\n"
    "def average(values):\n"
    "    \"\"\"Mean of a list; 0.0 when it is empty.\"\"\"\n"
    "    return sum(values) / len(values) if values else 0.0\n\n"
    "In 1854 a map of wells showed what no theory had: the sick lived near one pump. Could it have been chance? "
    "Hardly. "
    "Of 578 deaths, most lay within a few streets, and the brewery next door, whose workers drank beer, had none.\n\n"
    "{\"name\": \"kettle\", \"price\": 24.90, \"in_stock\": true, \"tags\": [\"kitchen\", \"steel\"]}\n\n"
    "Dear Ms. Okafor, thank you for your letter of 3 March. We have checked the invoice and you are right: the second "
    "item was counted twice. We will return $18.50 to your account within five days. I'm sorry for the trouble!\n\n"
    "Das Wasser treibt das Rad, das Rad den Stein. L'eau ne coule jamais deux fois sous le meme pont. El molino no "
    "muele con agua pasada.\n";
constexpr size_t kMaxTokens = 512;
// Keys of the first tokens are unlike all others (attention sinks).
constexpr uint32_t kFirstRow = 16;
// Rotations are averaged over the positions of contexts in everyday use; every eighth will do.
constexpr uint32_t kPositions = 4096;
constexpr uint32_t kPositionStep = 8;

bool IsCentred(const KvCacheSpec& spec, size_t group) {
  return CentresKeys(spec.groups[group].layout.k_type()) && spec.Span(group).pinned.empty();
}

bool WantsCentres(const KvCacheSpec& spec) {
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    if (IsCentred(spec, g)) return true;
  }
  return false;
}

// Sums of keys before RoPE: [num_layers][num_kv_heads * head_dim], each in row order.
using KeySums = std::vector<std::vector<double>>;

// One step over `tokens` with f32 keys and values, which no codec rounds.
Status SumKeys(Model& model, std::span<const TokenId> tokens, KeySums& sums) {
  const ModelConfig& config = model.config();
  EngineOptions options;
  options.cache.k_type = options.cache.v_type = KvType::kF32;
  options.context_tokens = options.prefill_chunk = static_cast<uint32_t>(tokens.size());
  KVERN_ASSIGN_OR_RETURN(CachePlan plan, PlanCache(options, config));
  KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                         KvCache::Create(std::move(plan.spec), HugePageAllocator()));
  SequenceCache sequence(*cache, tokens.size());
  BatchBuilder builder(*cache);
  builder.Add(sequence, tokens, /*num_logit_rows=*/0);
  sums.assign(config.num_layers, std::vector<double>(size_t{config.num_kv_heads} * config.head_dim));
  const AttentionObserver observer = [&](const AttentionRows& rows) {
    if (rows.is_rotated) return;
    std::vector<double>& sum = sums[rows.layer];
    for (size_t row = kFirstRow; row < tokens.size(); ++row) {
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(rows.k[row * rows.kv_stride + i]);
    }
  };
  ForwardBatch batch = builder.Build();
  batch.attention_observer = &observer;
  return model.Forward(batch, {}).status();
}

// The mean rotation of each pair: cosines, then sines.
struct MeanRotation {
  explicit MeanRotation(const RopeConfig& config) {
    const RopeAngles angles(config);
    const uint32_t num_pairs = angles.num_pairs();
    std::vector<float> cos_at(num_pairs), sin_at(num_pairs);
    cos.resize(num_pairs);
    sin.resize(num_pairs);
    for (uint32_t position = 0; position < kPositions; position += kPositionStep) {
      angles.Fill(position, cos_at, sin_at);
      for (uint32_t i = 0; i < num_pairs; ++i) {
        cos[i] += static_cast<double>(cos_at[i]) * kPositionStep / kPositions;
        sin[i] += static_cast<double>(sin_at[i]) * kPositionStep / kPositions;
      }
    }
  }
  std::vector<double> cos, sin;
};

// Rotates the mean of one head; a channel without a finite mean is not centred.
void AppendCentre(std::span<const double> mean, const MeanRotation& rotation, std::vector<float>& centres) {
  std::vector<double> rotated(mean.begin(), mean.end());
  for (size_t i = 0; i < rotation.cos.size(); ++i) {
    rotated[2 * i] = mean[2 * i] * rotation.cos[i] - mean[2 * i + 1] * rotation.sin[i];
    rotated[2 * i + 1] = mean[2 * i] * rotation.sin[i] + mean[2 * i + 1] * rotation.cos[i];
  }
  for (const double x : rotated) {
    const auto centre = static_cast<float>(x);
    centres.push_back(std::isfinite(centre) ? centre : 0.0f);
  }
}

}  // namespace

Status CentreKeys(KvCache& cache, Model& model, const Tokenizer& tokenizer) {
  if (!WantsCentres(cache.spec())) return Status::Ok();
  const ModelConfig& config = model.config();
  Result<std::vector<TokenId>> tokens = tokenizer.Encode(kText);
  if (!tokens.ok()) {
    return Status(tokens.status().code(), "keys cannot be centred for KV type " +
                                              std::string(KvTypeName(cache.spec().groups[0].layout.k_type())) + ": " +
                                              tokens.status().message() + "; f16 needs no centres");
  }
  const size_t num_tokens = std::min({tokens->size(), kMaxTokens, size_t{config.context_tokens}});
  if (num_tokens <= kFirstRow) return Status::Ok();  // A model for so few tokens has nothing to centre.
  KeySums sums;
  KVERN_RETURN_IF_ERROR(SumKeys(model, std::span(*tokens).first(num_tokens), sums));
  for (size_t g = 0; g < cache.num_groups(); ++g) {
    if (!IsCentred(cache.spec(), g)) continue;
    const MeanRotation rotation(config.RopeOf(config.layer_groups[g]));
    std::vector<float> centres;
    for (uint32_t layer = 0; layer < config.num_layers; ++layer) {
      if (config.layer_places[layer].group != g) continue;
      for (double& sum : sums[layer]) sum /= static_cast<double>(num_tokens - kFirstRow);
      for (uint32_t head = 0; head < config.num_kv_heads; ++head) {
        AppendCentre(std::span(sums[layer]).subspan(size_t{head} * config.head_dim, config.head_dim), rotation,
                     centres);
      }
    }
    cache.pool(g).SetKeyCentres(std::move(centres));
  }
  return Status::Ok();
}

}  // namespace kvern
