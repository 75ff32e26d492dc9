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
  const Engine& engine = context.model->engine;
  const EngineStats stats = engine.Stats();
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
      {"preemptions", stats.num_preemptions}});
}

}  // namespace kvern::server
