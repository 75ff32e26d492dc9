#include "server/operator_routes.h"

namespace kvern::server {

HttpReply Health(RouteContext& context) {
  if (context.model == nullptr) return ReplyWith(context, ModelIsLoading());
  return ReplyWith(Json{{"status", "ok"}});
}

HttpReply ShowMetrics(RouteContext& context) {
  EngineStats stats;
  if (context.model != nullptr) stats = context.model->engine.Stats();
  HttpResponse response;
  response.headers = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}};
  response.body = context.metrics.Text(context.model != nullptr ? &stats : nullptr, context.server_stats);
  return ReplyWith(std::move(response));
}

HttpReply ShowCache(RouteContext& context) {
  if (context.model == nullptr) return ReplyWith(context, ModelIsLoading());
  Engine& engine = context.model->engine;
  const EngineStats stats = engine.Stats();
  const PrefixStats& prefix = stats.prefix;
  Json tenants = Json::array();
  for (const TenantHolding& holding : engine.Holdings()) {
    tenants.push_back({{"salt", holding.salt},
                       {"blocks", holding.blocks},
                       {"idle_blocks", holding.idle_blocks},
                       {"bytes", holding.bytes},
                       {"tokens", holding.tokens},
                       {"lookup_tokens", holding.lookup_tokens},
                       {"hit_tokens", holding.hit_tokens}});
  }
  const CacheStats& cache = stats.cache;
  return ReplyWith(Json{
      {"object", "cache"},
      {"model", context.model->id},
      {"block_tokens", engine.options().cache.block_size},
      {"blocks",
       {{"total", cache.total_blocks},
        {"free", cache.free_blocks},
        {"filling", cache.filling_blocks},
        {"full", cache.full_blocks},
        {"idle", cache.idle_blocks},
        {"peak_used", cache.peak_used_blocks}}},
      {"bytes",
       {{"total", cache.total_bytes},
        {"free", cache.free_bytes},
        {"filling", cache.filling_bytes},
        {"full", cache.full_bytes},
        {"idle", cache.idle_bytes},
        {"peak_used", cache.peak_used_bytes},
        {"copied", cache.copied_bytes},
        {"spilled", stats.spilled_bytes},
        {"restored", stats.restored_bytes}}},
      {"sequences", {{"running", stats.running_sequences}, {"queued", stats.queued_requests}}},
      {"tokens",
       {{"computed", stats.tokens_computed}, {"reused", stats.tokens_reused}, {"recomputed", stats.tokens_recomputed}}},
      {"preemptions", stats.num_preemptions},
      {"prompts",
       {{"lookups", prefix.lookups},
        {"lookup_tokens", prefix.lookup_tokens},
        {"hit_tokens", prefix.hit_tokens},
        {"copied_tokens", prefix.copied_tokens},
        {"first_time_tokens", prefix.first_time_tokens},
        {"evicted_tokens", prefix.evicted_tokens},
        {"diverged_tokens", prefix.diverged_tokens},
        {"last_tokens", prefix.last_tokens}}},
      {"published_blocks", prefix.published_blocks},
      {"duplicate_blocks", prefix.duplicate_blocks},
      {"evicted_blocks", prefix.evicted_blocks},
      {"pinned_bytes", prefix.pinned_bytes},
      {"tenants", std::move(tenants)}});
}

HttpReply ClearCache(RouteContext& context) {
  if (context.model == nullptr) return ReplyWith(context, ModelIsLoading());
  return ReplyWith(Json{{"object", "cache.cleared"}, {"freed_bytes", context.model->engine.ClearCache(std::nullopt)}});
}

HttpReply ShowRecentRequests(RouteContext& context) {
  return ReplyWith(Json{{"object", "list"}, {"data", context.recent.List(context.tenant)}});
}

}  // namespace kvern::server
