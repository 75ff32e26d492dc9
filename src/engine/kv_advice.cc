// What statistics of keys and values say about codecs, in words. A warning is what a number means, not a verdict: that
// is what kvern quality measures.
#include <algorithm>
#include <cstdio>
#include <string>

#include "kvern/kv_diagnostics.h"

namespace kvern {
namespace {

constexpr double kMaxF16 = 65504;
// Layer 0 beyond this ratio breaks naive 4-bit keys (docs/choosing.md).
constexpr double kLayer0Outlier = 15;
// Noise of deviation e on the scores of a softmax costs about e^2 / 2 nats, which is what models were measured to lose
// (docs/choosing.md): here the 1e-3 and 1e-2 of the gates.
constexpr double kInt8Noise = 0.045;
constexpr double kInt4Noise = 0.14;
constexpr double kManySinks = 0.2;
constexpr double kLocal = 0.8;

// Where something is largest.
struct Worst {
  double value = 0;
  uint32_t layer = 0;
  uint32_t head = 0;
};
template <typename Fn>
Worst WorstOf(const KvDiagnosis& diagnosis, Fn value_of) {
  Worst worst;
  for (uint32_t layer = 0; layer < diagnosis.num_layers; ++layer) {
    for (uint32_t head = 0; head < diagnosis.num_kv_heads; ++head) {
      const double value = value_of(diagnosis.Head(layer, head));
      if (value > worst.value) worst = {value, layer, head};
    }
  }
  return worst;
}

template <typename Fn>
double MeanOver(const KvDiagnosis& diagnosis, Fn value_of) {
  double sum = 0;
  for (const HeadDiagnosis& head : diagnosis.heads) sum += value_of(head);
  return sum / static_cast<double>(diagnosis.heads.size());
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g", value);
  return text;
}

std::string Percent(double share) { return Number(100 * share) + " %"; }

std::string Place(const Worst& worst) {
  return "layer " + std::to_string(worst.layer) + ", head " + std::to_string(worst.head);
}

double Largest(const RowStatistics& rows) { return std::max(rows.max, -rows.min); }

std::string AdviceOnF16(const KvDiagnosis& diagnosis) {
  const auto beyond = [](const HeadDiagnosis& head) { return head.k.num_beyond_f16 + head.v.num_beyond_f16; };
  uint64_t num_beyond = 0;
  for (const HeadDiagnosis& head : diagnosis.heads) num_beyond += beyond(head);
  const Worst k = WorstOf(diagnosis, [](const HeadDiagnosis& head) { return Largest(head.k); });
  const Worst v = WorstOf(diagnosis, [](const HeadDiagnosis& head) { return Largest(head.v); });
  const Worst& worst = k.value >= v.value ? k : v;
  const std::string largest = "the largest " + std::string(k.value >= v.value ? "key" : "value") + " is " +
                              Number(worst.value) + " (" + Place(worst) + ")";
  if (num_beyond > 0) {
    return "f16 is NOT safe: " + std::to_string(num_beyond) + " numbers are beyond its 65504 and would be clamped; " +
           largest + ". Use f32, or bf16, which has the range of f32.";
  }
  if (worst.value > kMaxF16 / 8) {
    return "f16 is close to its limit of 65504: " + largest +
           ". Other texts may go beyond it: bf16 has the range of f32.";
  }
  return "f16 and bf16 are safe: " + largest + ", f16 goes to 65504.";
}

std::string AdviceOnInt8(const KvDiagnosis& diagnosis) {
  const double mean = MeanOver(diagnosis, [](const HeadDiagnosis& head) { return head.score_noise_int8; });
  const Worst worst = WorstOf(diagnosis, [](const HeadDiagnosis& head) { return head.score_noise_int8; });
  const std::string noise = "rounding keys to 8 bits moves attention scores by " + Number(mean) +
                            " on the average and by " + Number(worst.value) + " in " + Place(worst);
  if (mean <= kInt8Noise / 2) return "8-bit keys look safe: " + noise + " (0.045 costs about 1e-3 nats, the gate).";
  if (mean <= kInt8Noise) {
    return "8-bit keys are near their gate: " + noise + " (0.045 costs about 1e-3 nats). Let kvern quality decide.";
  }
  return "8-bit keys are doubtful: " + noise + " (0.045 costs about 1e-3 nats, the gate). Keep keys in 16 bits.";
}

std::string AdviceOnInt4(const KvDiagnosis& diagnosis) {
  const double mean = MeanOver(diagnosis, [](const HeadDiagnosis& head) { return head.score_noise_int4; });
  const Worst worst = WorstOf(diagnosis, [](const HeadDiagnosis& head) { return head.score_noise_int4; });
  const std::string noise = "even rotated and centred, keys in 4 bits move attention scores by " + Number(mean) +
                            " on the average and by " + Number(worst.value) + " in " + Place(worst);
  if (mean <= kInt4Noise) return "4-bit keys may do: " + noise + ". Let kvern quality decide.";
  return "4-bit keys are doubtful: " + noise +
         ". 4-bit values cost less, since no softmax enlarges their error: k8v4 is the narrow choice to try.";
}

std::string AdviceOnOutliers(const KvDiagnosis& diagnosis) {
  double layer0 = 0;
  for (uint32_t head = 0; head < diagnosis.num_kv_heads; ++head) {
    layer0 = std::max(layer0, diagnosis.Head(0, head).k.outlier_ratio);
  }
  const double share = MeanOver(diagnosis, [](const HeadDiagnosis& head) { return head.k.mean_share; });
  std::string text = "Keys of layer 0 reach " + Number(layer0) + " times their mean magnitude";
  text += layer0 >= kLayer0Outlier ? " (15 or more breaks 4-bit keys that share one scale)" : " (15 would be alarming)";
  text += "; " + Percent(share) + " of all squares of keys lie in fixed channel means";
  return text + (share >= 0.3 ? ", which int8 and int4 do not have to store." : ".");
}

std::string AdviceOnWindows(const KvDiagnosis& diagnosis) {
  const double sinks = MeanOver(diagnosis, [](const HeadDiagnosis& head) { return head.sink_share; });
  const double recent = MeanOver(diagnosis, [](const HeadDiagnosis& head) { return head.recent_share; });
  std::string text = "Attention gives " + Percent(sinks) + " of its weight to the first 4 tokens and " +
                     Percent(recent) + " to the last 64";
  if (sinks >= kManySinks) return text + ": a window must keep the first tokens (--sinks 4), or it falls apart.";
  if (recent >= kLocal) return text + ": a window loses little, with or without sinks.";
  return text + ": a window loses what lies between.";
}

}  // namespace

std::vector<std::string> AdviceFor(const KvDiagnosis& diagnosis) {
  if (diagnosis.non_finite) {
    const NonFiniteValue& found = *diagnosis.non_finite;
    return {std::string("No codec is safe: ") + found.row + " is not finite in layer " + std::to_string(found.layer) +
            ", head " + std::to_string(found.head) + ", at position " + std::to_string(found.position) +
            ", before anything is stored. The weights or the activations are at fault: try --activations f32, and " +
            "check the file."};
  }
  return {AdviceOnF16(diagnosis), AdviceOnInt8(diagnosis), AdviceOnInt4(diagnosis), AdviceOnOutliers(diagnosis),
          AdviceOnWindows(diagnosis)};
}

}  // namespace kvern
