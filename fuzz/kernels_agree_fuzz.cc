// Every target that this CPU runs gives the bits of `generic`, for any shape, weight type, codes, scales and
// activations. The input: a header of shape and type, then bytes that fill activations and weights, repeated as often
// as needed.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "fuzz/source.h"
#include "kernels/dispatch.h"
#include "kernels/testing/random_weights.h"
#include "kernels/testing/run_product.h"

namespace kvern {
namespace {

// Half of the values are of a common size; the others are any bits, infinities and NaN among them.
float Activation(Source& source) {
  const uint32_t word = source.Word();
  if (word % 2 == 0) return static_cast<float>(static_cast<int32_t>(word)) * 0x1p-30f;
  return word % 32 == 1 ? std::bit_cast<float>(word) : static_cast<float>(static_cast<int8_t>(word >> 8));
}

// Weights that are not finite are refused before any product; here they lose the top bit of their exponent.
void MakeFinite(DType dtype, std::vector<uint8_t>& bytes) {
  const size_t block_bytes = GetDTypeInfo(dtype).block_bytes;
  const std::vector<size_t> fields = IsFloat(dtype) ? std::vector<size_t>{block_bytes - 2} : F16FieldsOf(dtype);
  // The upper half of a float looks like a BF16.
  const uint16_t exponent = dtype == DType::kF32 || dtype == DType::kBF16 ? 0x7f80 : 0x7c00;
  for (size_t block = 0; block < bytes.size(); block += block_bytes) {
    for (const size_t field : fields) {
      uint16_t half;
      std::memcpy(&half, bytes.data() + block + field, 2);
      if ((half & exponent) == exponent) half = static_cast<uint16_t>(half ^ 0x4000);
      std::memcpy(bytes.data() + block + field, &half, 2);
    }
  }
}

TensorView MakeWeights(DType dtype, uint32_t num_outputs, uint32_t num_inputs, Source& source,
                       std::vector<uint8_t>& bytes) {
  TensorView view;
  view.name = "fuzz";
  view.dtype = dtype;
  view.num_dims = 2;
  view.dims = {num_inputs, num_outputs, 1, 1};
  bytes.resize(RowBytes(dtype, num_inputs) * num_outputs);
  for (uint8_t& byte : bytes) byte = source.Byte();
  MakeFinite(dtype, bytes);
  view.data = bytes;
  return view;
}

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "kernels_agree: %s\n", what.c_str());
  std::abort();
}

void CheckProducts(Source& source) {
  const std::span<const DTypeInfo> types = AllDTypes();
  const DTypeInfo& info = types[source.Byte() % types.size()];
  const uint32_t num_rows = source.Byte() % 4 == 0 ? 1 : 1 + source.Byte() % 70;
  const uint32_t num_outputs = 1 + source.Byte() % 100;
  const uint32_t num_inputs = info.block_elements == 1
                                  ? 1 + source.Byte() % 70
                                  : info.block_elements * (1 + source.Byte() % (info.block_elements == 256 ? 3 : 20));
  const bool wants_f32 = source.Byte() % 4 == 0;
  const ActivationForm form = IsFloat(info.dtype) || wants_f32 ? ActivationForm::kF32 : ActivationForm::kInt8;
  ProductCuts cuts;
  cuts.rows = {source.Byte() % (num_rows + 1)};
  cuts.panels = {source.Byte() % ((num_outputs + 15) / 16 + 1)};
  cuts.columns = {num_inputs / 32 == 0 ? 0 : source.Byte() % (num_inputs / 32) * 32};

  std::vector<uint8_t> bytes;
  const TensorView weights = MakeWeights(info.dtype, num_outputs, num_inputs, source, bytes);
  PackedMatrix matrix = PackedMatrix::Allocate(weights, HeapAllocator()).value();
  if (!matrix.PackPanels(weights, 0, matrix.view().num_panels()).ok()) Fail("finite weights are refused");
  std::vector<float> x(static_cast<size_t>(num_rows) * num_inputs);
  for (float& value : x) value = Activation(source);

  const auto targets = RunnableTargets();
  const std::vector<float> expected = RunProduct(*targets.front(), matrix.view(), x, num_rows, form);
  for (const KernelTable* target : targets) {
    const std::vector<float> found = RunProduct(*target, matrix.view(), x, num_rows, form, cuts);
    for (size_t i = 0; i < found.size(); ++i) {
      const bool both_nan = std::isnan(found[i]) && std::isnan(expected[i]);
      if (!both_nan && std::bit_cast<uint32_t>(found[i]) != std::bit_cast<uint32_t>(expected[i])) {
        Fail(std::string(target->name) + ", " + std::string(info.name) + ", rows " + std::to_string(num_rows) +
             ", outputs " + std::to_string(num_outputs) + ", inputs " + std::to_string(num_inputs) + ": element " +
             std::to_string(i) + " is " + std::to_string(found[i]) + ", generic has " + std::to_string(expected[i]));
      }
    }
  }
}

}  // namespace
}  // namespace kvern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  kvern::Source source({data, size});
  kvern::CheckProducts(source);
  return 0;
}
