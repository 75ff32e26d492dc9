// The routes that clients of the OpenAI API and of llama-server know. docs/api.md describes them.
#pragma once

#include "server/route_context.h"

namespace kvern::server {

HttpReply ChatCompletions(RouteContext& context);  // POST /v1/chat/completions
HttpReply ApplyTemplate(RouteContext& context);    // POST /apply-template
HttpReply Completions(RouteContext& context);      // POST /v1/completions
HttpReply ListModels(RouteContext& context);       // GET /v1/models
HttpReply ShowModel(RouteContext& context);        // GET /v1/models/{id}
HttpReply TokenizeText(RouteContext& context);     // POST /tokenize
HttpReply Detokenize(RouteContext& context);       // POST /detokenize

}  // namespace kvern::server
