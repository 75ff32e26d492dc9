// The attention kernels and the storing of KV rows of one target (kernel_table.h: "KV cache"). Included inside a
// target's namespace after its simd headers.
#pragma once

#include "kernels/inl/attention_paths.inl.h"

// Whether there is code for certain head sizes besides that for any.
#ifdef KVERN_ANY_HEAD_DIM_ONLY
inline constexpr bool kKnowsHeadDims = false;
#else
inline constexpr bool kKnowsHeadDims = kHasVectors;
#endif

template <int kDim>
void RunTileOfDim(const AttentionTile& tile) {
  const float c = tile.scale * kLog2E;
  const KeyFunctions& keys = CodecOf<kDim>(tile.kv->k_type).keys;
  const ValueFunctions& values = CodecOf<kDim>(tile.kv->v_type).values;
  if (tile.reads_stored) {
    RunDecodeTile(tile, keys, values, c);
  } else {
    RunPrefillTile<kDim>(tile, keys, values, c);
  }
}

uint64_t RunAttentionTile(const AttentionTile& tile) {
  const uint32_t dim = tile.kv->head_dim;
  if (kKnowsHeadDims && dim == 64) {
    RunTileOfDim<kKnowsHeadDims ? 64 : 0>(tile);
  } else if (kKnowsHeadDims && dim == 128) {
    RunTileOfDim<kKnowsHeadDims ? 128 : 0>(tile);
  } else {
    RunTileOfDim<0>(tile);
  }
  return ProductsOfTile(tile);
}

// A row has partial results of the visited splits of which it sees a slot; the first may be that of all up to it.
void MergeAttention(const AttentionTile& tile) {
  const uint32_t dim = tile.kv->head_dim;
  float* const states = TileScratch(tile).states;
  for (uint32_t row = 0; row < tile.num_rows(); ++row) {
    const AttentionToken& token = tile.tokens[row / tile.group_size];
    float* const state = states + row * AttentionStateFloats(dim);
    bool is_first = true;
    for (uint32_t index = tile.split_begin; index < tile.split_end; ++index) {
      const uint32_t split = tile.splits[index];
      const bool has_partial = index == tile.split_begin ? token.first_split <= split
                                                         : SlotsSeenOfSplit(tile.span, token.position, split) > 0;
      if (!has_partial) continue;
      const float* const partial = PartialOf(tile, index, row);
      if (is_first) {
        std::memcpy(state, partial, AttentionStateFloats(dim) * sizeof(float));
      } else {
        MergeSplit(state, partial[0], partial + 16, partial + 32, dim, /*is_first=*/false);
      }
      is_first = false;
    }
    FinishRow(state, OutOf(tile, row), *tile.kv);
  }
}

uint32_t StoreKv(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, const float* k, const float* v) {
  const SlotPlace place(kv, slot);
  const CodecFunctions& k_codec = CodecOf<0>(kv.k_type);
  const CodecFunctions& v_codec = CodecOf<0>(kv.v_type);
  const float* centre = kv.KeyCentres(layer);
  float centred[kMaxRowDims];
  uint32_t num_lost = 0;
  for (uint32_t head = 0; head < kv.num_kv_heads; ++head, k += kv.head_dim, v += kv.head_dim) {
    const float* key = k;
    if (centre != nullptr) {
      for (uint32_t d = 0; d < kv.head_dim; d += 16) Store(centred + d, Sub(Load(k + d), Load(centre + d)));
      centre += kv.head_dim;
      key = centred;
    }
    uint8_t* const scales = kv.HeadScales(block, layer, head) + place.scales;
    num_lost += k_codec.store_key(key, kv.head_dim, kv.HeadK(block, layer, head) + place.k, scales, place.lane);
    num_lost += v_codec.store_value(v, kv.head_dim, kv.HeadV(block, layer, head) + place.v, scales + place.v_scales,
                                    place.lane);
  }
  return num_lost;
}

void LoadKv(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, float* k, float* v) {
  const SlotPlace place(kv, slot);
  const CodecFunctions& k_codec = CodecOf<0>(kv.k_type);
  const CodecFunctions& v_codec = CodecOf<0>(kv.v_type);
  const float* centre = kv.KeyCentres(layer);
  for (uint32_t head = 0; head < kv.num_kv_heads; ++head, k += kv.head_dim, v += kv.head_dim) {
    const uint8_t* const scales = kv.HeadScales(block, layer, head) + place.scales;
    k_codec.load_key(kv.HeadK(block, layer, head) + place.k, scales, place.lane, kv.head_dim, k);
    if (centre != nullptr) {
      for (uint32_t d = 0; d < kv.head_dim; d += 16) Store(k + d, Add(Load(k + d), Load(centre + d)));
      centre += kv.head_dim;
    }
    v_codec.load_value(kv.HeadV(block, layer, head) + place.v, scales + place.v_scales, place.lane, kv.head_dim, v);
  }
}
