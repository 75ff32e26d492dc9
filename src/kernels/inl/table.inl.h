// The kernels of one target, gathered. Included inside a target's namespace after KVERN_TARGET_NAME has been defined.

#include "kernels/inl/kernel_functions.inl.h"

extern const KernelTable kKernelTable;
const KernelTable kKernelTable = {
    .name = KVERN_TARGET_NAME,
    .activation_bytes = ActivationBytes,
    .pack_activations = PackActivations,
    .int8_residual = Int8Residual,
    .matmul_scratch_bytes = MatmulScratchBytes,
    .matmul = Matmul,
    .rms_norm = RmsNorm,
    .swiglu = Swiglu,
    .geglu = Geglu,
    .rope_pairs = RopePairs,
    .argmax = Argmax,
    .exp_shifted = ExpShifted,
    .store_kv = StoreKv,
    .load_kv = LoadKv,
    .attention_tile = RunAttentionTile,
    .attention_merge = MergeAttention,
};
