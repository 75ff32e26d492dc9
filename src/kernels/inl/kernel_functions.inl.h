// The kernels of one target, as kernel_table.h describes them. Included inside a target's namespace; each function is
// defined in the file named here.
#pragma once

// matmul.inl.h
size_t ActivationBytes(ActivationForm form, uint32_t num_rows, uint32_t num_inputs);
void PackActivations(const ActivationPackArgs& args);
void Int8Residual(const float* x, uint32_t n, float* residual);
size_t MatmulScratchBytes();
void Matmul(const MatmulArgs& args);

// elementwise.inl.h
void RmsNorm(const float* x, const float* weight, uint32_t n, float eps, float* out);
void Swiglu(const float* gate, const float* up, uint32_t n, float* out);
void Geglu(const float* gate, const float* up, uint32_t n, float* out);
void RopePairs(float* x, uint32_t num_heads, uint32_t head_dim, uint32_t rope_dim, const float* cos, const float* sin);
uint32_t Argmax(const float* x, uint32_t n);
float ExpShifted(const float* x, uint32_t n, float scale, float* p);

// attention.inl.h
uint32_t StoreKv(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, const float* k, const float* v);
void LoadKv(const KvView& kv, uint32_t layer, BlockIndex block, uint32_t slot, float* k, float* v);
uint64_t RunAttentionTile(const AttentionTile& tile);
void MergeAttention(const AttentionTile& tile);
