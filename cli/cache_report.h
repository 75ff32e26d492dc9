// What the cache costs before a run and what it held after one, in words.
#pragma once

#include <string>

#include "kvern/engine.h"

namespace kvern::cli {

// "KV cache: 23,040 bytes per token; budget 2.0 GiB, paged, blocks of 64; longest context 8,192 tokens in 188,743,680
// bytes"; where layers see windows, a line more for each layer group.
std::string CacheCostText(const CacheCost& cost, const CacheOptions& options);

// Bytes by state, now and at the peak, as a table.
std::string CacheStatsText(const EngineStats& stats);

}  // namespace kvern::cli
