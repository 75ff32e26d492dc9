// Any bytes as a GGUF file: opening it, looking at every value and decoding a row of every tensor must not do harm.
// Seeds: make_gguf_seeds DIRECTORY.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "tensor/quant_formats.h"

namespace kvern {
namespace {

class BorrowedMapping : public MappedFile {
 public:
  explicit BorrowedMapping(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  std::span<const uint8_t> bytes() const override { return bytes_; }
  void Release(size_t offset, size_t num_bytes) override {
    if (offset > bytes_.size() || num_bytes > bytes_.size() - offset) __builtin_trap();
  }

 private:
  std::span<const uint8_t> bytes_;
};

// Keeps the compiler from dropping what is computed only to be looked at.
volatile uint64_t sink;

void TouchMetadata(const GgufFile& file) {
  for (const GgufMetadata& entry : file.metadata()) {
    if (file.Find(entry.key) != &entry.value) __builtin_trap();
    uint64_t sum = entry.value.ToString().size() + entry.value.TypeName().size();
    for (uint64_t i = 0; i < entry.value.size(); ++i) sum += entry.value.At(i).AsUint().value_or(1);
    for (const std::string_view text : entry.value.strings()) {
      for (const char c : text) sum += static_cast<uint8_t>(c);
    }
    sum += file.GetUint(entry.key).ok() + file.GetFloat(entry.key).ok() + file.GetBool(entry.key).ok() +
           file.GetString(entry.key).ok() + file.GetStrings(entry.key).ok() + file.GetInts(entry.key).ok() +
           file.GetFloats(entry.key).ok() + file.GetUintPerLayer(entry.key, 2, 1000).ok();
    sink = sum;
  }
}

void TouchTensors(const GgufFile& file) {
  for (const GgufTensorInfo& info : file.tensors()) {
    const Result<TensorView> view = file.Tensor(info.name);
    if (!view.ok()) continue;
    if (view->data.size() != view->row_bytes() * view->num_rows()) __builtin_trap();
    // Every type takes at least half a byte an element, so a row is at most eight times the input.
    std::vector<float> row(view->row_elements());
    for (const uint64_t i : {uint64_t{0}, view->num_rows() - 1}) {
      DecodeRow(view->dtype, view->row(i), row);
      sink = static_cast<uint64_t>(row[0] == row[row.size() - 1]);
    }
    sink = ScalesAreFinite(view->dtype, view->data);
    file.Release(*view);
  }
}

}  // namespace
}  // namespace kvern

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = kvern::GgufFile::FromMapping(
      std::make_unique<kvern::BorrowedMapping>(std::span<const uint8_t>(data, size)), "fuzz.gguf");
  if (!file.ok()) {
    if (file.status().message().find("fuzz.gguf: ") != 0) __builtin_trap();
    return 0;
  }
  kvern::TouchMetadata(*file);
  kvern::TouchTensors(*file);
  return 0;
}
