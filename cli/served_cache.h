// What a running server says of its cache, for people. Fields that are missing count as 0 or "".
#pragma once

#include <string>

#include "server/json.h"

namespace kvern::cli {

// The reply of GET /v1/cache: blocks by state, sequences, where the tokens of prompts came from, and what is held for
// whom.
std::string HoldingText(const server::Json& cache);

// The reply of GET /v1/cache/requests: for each of the last requests, where the tokens of its prompt came from.
std::string CausesText(const server::Json& requests);

// The reply of DELETE /v1/cache.
std::string ClearedText(const server::Json& cleared);

}  // namespace kvern::cli
