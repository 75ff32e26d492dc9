// The attention kernels and the KV codecs of one target (kernel_table.h: "KV cache"). Included inside a target's
// namespace after its simd header.
#pragma once

#include "kernels/inl/attention_paths.inl.h"

template <int kDim, class K, class V>
void RunTileOf(const AttentionTile& tile) {
  const float c = tile.scale * kLog2E;
  if (tile.reads_stored) {
    RunDecodeTile<kDim, K, V>(tile, c);
  } else {
    RunPrefillTile<kDim, K, V>(tile, c);
  }
}

template <int kDim>
void RunTileOfDim(const AttentionTile& tile) {
  const bool k_is_f16 = tile.kv->k_type == KvType::kF16, v_is_f16 = tile.kv->v_type == KvType::kF16;
  if (k_is_f16) return v_is_f16 ? RunTileOf<kDim, uint16_t, uint16_t>(tile) : RunTileOf<kDim, uint16_t, float>(tile);
  return v_is_f16 ? RunTileOf<kDim, float, uint16_t>(tile) : RunTileOf<kDim, float, float>(tile);
}

uint64_t RunAttentionTile(const AttentionTile& tile) {
  const uint32_t dim = tile.kv->head_dim;
  if (kHasVectors && dim == 64) {
    RunTileOfDim<kHasVectors ? 64 : 0>(tile);
  } else if (kHasVectors && dim == 128) {
    RunTileOfDim<kHasVectors ? 128 : 0>(tile);
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
    FinishRow(state, OutOf(tile, row), dim);
  }
}

// ---- Codecs. K goes into lane slot % 16 of its granule, V is a row.

KVERN_INLINE void EncodeRow(const float* x, float* stored, uint32_t dim) {
  std::memcpy(stored, x, dim * sizeof(float));
}
KVERN_INLINE void EncodeRow(const float* x, uint16_t* stored, uint32_t dim) {
  for (uint32_t d = 0; d < dim; d += 16) StoreF16(stored + d, Load(x + d));
}

template <class T>
void StoreHeadK(const float* k, uint8_t* head, uint32_t slot, uint32_t dim) {
  T* const granule = reinterpret_cast<T*>(head) + static_cast<size_t>(slot / kGranuleSlots) * kGranuleSlots * dim;
  T* lane = granule + slot % kGranuleSlots;
  T encoded[16];
  for (uint32_t d = 0; d < dim; d += 16) {
    EncodeRow(k + d, encoded, 16);
    for (uint32_t i = 0; i < 16; ++i, lane += kGranuleSlots) *lane = encoded[i];
  }
}

template <class T>
void LoadHeadK(const uint8_t* head, uint32_t slot, uint32_t dim, float* k) {
  const T* const granule =
      reinterpret_cast<const T*>(head) + static_cast<size_t>(slot / kGranuleSlots) * kGranuleSlots * dim;
  const T* lane = granule + slot % kGranuleSlots;
  T encoded[16];
  for (uint32_t d = 0; d < dim; d += 16) {
    for (uint32_t i = 0; i < 16; ++i, lane += kGranuleSlots) encoded[i] = *lane;
    Store(k + d, LoadStored(encoded));
  }
}

template <class T>
void StoreHeadV(const float* v, uint8_t* head, uint32_t slot, uint32_t dim) {
  EncodeRow(v, reinterpret_cast<T*>(head) + static_cast<size_t>(slot) * dim, dim);
}

template <class T>
void LoadHeadV(const uint8_t* head, uint32_t slot, uint32_t dim, float* v) {
  const T* const stored = reinterpret_cast<const T*>(head) + static_cast<size_t>(slot) * dim;
  for (uint32_t d = 0; d < dim; d += 16) Store(v + d, LoadStored(stored + d));
}

void StoreKv(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, const float* k, const float* v) {
  const uint32_t dim = kv.head_dim;
  for (uint32_t head = 0; head < kv.num_kv_heads; ++head, k += dim, v += dim) {
    uint8_t* const stored_k = kv.HeadK(block, layer, head);
    uint8_t* const stored_v = kv.HeadV(block, layer, head);
    if (kv.k_type == KvType::kF16) {
      StoreHeadK<uint16_t>(k, stored_k, slot, dim);
    } else {
      StoreHeadK<float>(k, stored_k, slot, dim);
    }
    if (kv.v_type == KvType::kF16) {
      StoreHeadV<uint16_t>(v, stored_v, slot, dim);
    } else {
      StoreHeadV<float>(v, stored_v, slot, dim);
    }
  }
}

void LoadKv(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, float* k, float* v) {
  const uint32_t dim = kv.head_dim;
  for (uint32_t head = 0; head < kv.num_kv_heads; ++head, k += dim, v += dim) {
    const uint8_t* const stored_k = kv.HeadK(block, layer, head);
    const uint8_t* const stored_v = kv.HeadV(block, layer, head);
    if (kv.k_type == KvType::kF16) {
      LoadHeadK<uint16_t>(stored_k, slot, dim, k);
    } else {
      LoadHeadK<float>(stored_k, slot, dim, k);
    }
    if (kv.v_type == KvType::kF16) {
      LoadHeadV<uint16_t>(stored_v, slot, dim, v);
    } else {
      LoadHeadV<float>(stored_v, slot, dim, v);
    }
  }
}
