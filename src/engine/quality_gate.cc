// The gates: how far a codec may move a model's distributions, by the width of what it stores.
#include <algorithm>

#include "kvcache/codecs/codec_registry.h"
#include "kvern/quality.h"

namespace kvern {
namespace {

// Widths that gates speak of. Scales take a fraction of a bit more, so what counts is the range.
enum class Width : uint8_t { kFull, k16, k8, k4 };

Width WidthOf(KvType type) {
  constexpr uint32_t kHeadDim = 128;  // Of a usual head; no width depends on it.
  const double bits = BitsPerValue(type, kHeadDim);
  if (bits > 20) return Width::kFull;
  if (bits > 12) return Width::k16;
  return bits > 6 ? Width::k8 : Width::k4;
}

}  // namespace

std::optional<QualityGate> GateFor(KvType k_type, KvType v_type) {
  const Width k = WidthOf(k_type), v = WidthOf(v_type);
  const Width narrower = std::max(k, v);
  switch (narrower) {
    case Width::kFull: return std::nullopt;
    case Width::k16: return QualityGate{.name = "16-bit", .max_kld_mean = 2e-4};
    case Width::k8: return QualityGate{.name = "8-bit", .max_kld_mean = 1e-3, .min_same_top = 0.985};
    case Width::k4: break;
  }
  // Errors of K go through the softmax, those of V do not: narrow values alone are asked for more.
  if (k != Width::k4) return QualityGate{.name = "K8V4", .max_kld_mean = 5e-3};
  return QualityGate{.name = "4-bit", .max_kld_mean = 1e-2, .min_same_top = 0.95};
}

bool NeedsVerdict(KvType k_type, KvType v_type) { return std::max(WidthOf(k_type), WidthOf(v_type)) >= Width::k8; }

bool PassesGate(const QualityGate& gate, const QualityNumbers& numbers) {
  return numbers.kld_mean.value <= gate.max_kld_mean && numbers.same_top.value >= gate.min_same_top;
}

}  // namespace kvern
