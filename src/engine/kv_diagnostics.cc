#include "kvern/kv_diagnostics.h"

#include <string>
#include <utility>

#include "engine/batch_builder.h"
#include "engine/cache_plan.h"
#include "engine/kv_statistics.h"
#include "engine/loaded_model.h"
#include "kvcache/kv_cache.h"
#include "kvcache/sequence_cache.h"
#include "platform/huge_pages.h"

namespace kvern {
namespace {

Status CheckTokens(const std::vector<TokenId>& tokens, const ModelConfig& config) {
  if (tokens.size() < 2 || tokens.size() > config.context_tokens) {
    return Status::InvalidArgument("a text of " + std::to_string(tokens.size()) + " tokens, expected 2 to " +
                                   std::to_string(config.context_tokens) + ", the model's context");
  }
  for (const TokenId token : tokens) {
    if (token >= 0 && static_cast<uint32_t>(token) < config.vocab_size) continue;
    return Status::InvalidArgument("token " + std::to_string(token) + " is outside the vocabulary of " +
                                   std::to_string(config.vocab_size));
  }
  return Status::Ok();
}

}  // namespace

// All rows go through in one step: the observer then has a layer's whole text before it.
Result<KvDiagnosis> DiagnoseKv(const EngineOptions& options, const std::vector<TokenId>& tokens,
                               const DiagnosisProgress& progress) {
  KVERN_RETURN_IF_ERROR(options.Validate());
  bool is_cancelled = false;
  const auto goes_on = [&](uint32_t done, uint32_t total) {
    is_cancelled = is_cancelled || (progress && !progress(done, total));
    return !is_cancelled;
  };
  KVERN_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModelAlone(options, [&] { return goes_on(0, 1); }));
  const ModelConfig& config = loaded.model->config();
  KVERN_RETURN_IF_ERROR(CheckTokens(tokens, config));

  EngineOptions plain = options;
  plain.cache = CacheOptions();
  plain.cache.k_type = plain.cache.v_type = KvType::kF32;
  plain.context_tokens = plain.prefill_chunk = static_cast<uint32_t>(tokens.size());
  KVERN_ASSIGN_OR_RETURN(CachePlan plan, PlanCache(plain, config));
  KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                         KvCache::Create(std::move(plan.spec), HugePageAllocator()));
  SequenceCache sequence(*cache, tokens.size());
  KvStatistics statistics(config, static_cast<uint32_t>(tokens.size()));
  const AttentionObserver observer = [&](const AttentionRows& rows) {
    if (is_cancelled) return;  // A step cannot be left, but it ends sooner.
    statistics.Observe(rows);
    goes_on(statistics.layers_done(), config.num_layers);
  };
  BatchBuilder builder(*cache);
  builder.Add(sequence, tokens, /*num_logit_rows=*/0);
  ForwardBatch batch = builder.Build();
  batch.attention_observer = &observer;
  KVERN_RETURN_IF_ERROR(loaded.model->Forward(batch, {}).status());
  if (is_cancelled) return Status::Cancelled("the diagnosis was cancelled");
  return statistics.Take();
}

}  // namespace kvern
