// Key centres: the point around which a model's keys stand, for codecs that store keys without it (CentresKeys).
// A fixed property of the model, like its weights: every engine that opens the same file in the same activation mode
// finds the same bits, whatever its target, threads and options.
#pragma once

#include "kvcache/kv_cache.h"
#include "kvern/status.h"
#include "kvern/tokenizer.h"
#include "model/model.h"

namespace kvern {

// Measures them, if `cache` has a layer group whose codec centres keys, and sets them there; before the first token.
// They are the mean key of a built-in text before RoPE, layer by layer, averaged over the rotations of positions: what
// is left of a mean at most positions of a long text. Layers whose rows see pinned slots get none, since a row then
// reads keys under two queries, to which a centre is not the same. Costs one step of a few hundred tokens.
// kInvalidArgument where the tokenizer cannot encode the text, kResourceExhausted for memory.
Status CentreKeys(KvCache& cache, Model& model, const Tokenizer& tokenizer);

}  // namespace kvern
