#include "gguf/gguf_writer.h"

#include "base/check.h"
#include "base/checked_math.h"
#include "tensor/quant_formats.h"

namespace kvern {
namespace {

uint64_t Product(std::span<const uint64_t> dims) {
  uint64_t product = 1;
  for (const uint64_t dim : dims) product *= dim;
  return product;
}

}  // namespace

void GgufWriter::AppendString(std::string_view text, std::vector<uint8_t>& out) {
  AppendScalar<uint64_t>(text.size(), out);
  out.insert(out.end(), text.begin(), text.end());
}

void GgufWriter::AppendArrayHead(GgufType element_type, uint64_t count, std::vector<uint8_t>& out) {
  AppendScalar<uint32_t>(static_cast<uint32_t>(element_type), out);
  AppendScalar<uint64_t>(count, out);
}

void GgufWriter::Add(std::string_view key, std::string_view text) {
  std::vector<uint8_t> bytes;
  AppendString(text, bytes);
  AddRaw(key, static_cast<uint32_t>(GgufType::kString), bytes);
}

void GgufWriter::AddArray(std::string_view key, const std::vector<std::string>& elements) {
  std::vector<uint8_t> bytes;
  AppendArrayHead(GgufType::kString, elements.size(), bytes);
  for (const std::string& element : elements) AppendString(element, bytes);
  AddRaw(key, static_cast<uint32_t>(GgufType::kArray), bytes);
}

void GgufWriter::AddRaw(std::string_view key, uint32_t type_id, std::span<const uint8_t> value) {
  AppendString(key, metadata_);
  AppendScalar<uint32_t>(type_id, metadata_);
  metadata_.insert(metadata_.end(), value.begin(), value.end());
  ++num_metadata_;
}

void GgufWriter::AddTensor(std::string_view name, DType dtype, std::span<const uint64_t> dims,
                           std::span<const uint8_t> bytes) {
  KVERN_CHECK(!dims.empty() && dims.size() <= 4 && dims[0] % GetDTypeInfo(dtype).block_elements == 0);
  KVERN_CHECK(bytes.size() == RowBytes(dtype, Product(dims)));
  AddRawTensor(name, static_cast<uint32_t>(dtype), dims, bytes);
}

void GgufWriter::AddTensorFromValues(std::string_view name, DType dtype, std::span<const uint64_t> dims,
                                     std::span<const float> values) {
  KVERN_CHECK(!dims.empty() && dims[0] % GetDTypeInfo(dtype).block_elements == 0 && values.size() == Product(dims));
  std::vector<uint8_t> bytes(RowBytes(dtype, values.size()));
  EncodeRow(dtype, values, bytes);
  AddTensor(name, dtype, dims, bytes);
}

void GgufWriter::AddRawTensor(std::string_view name, uint32_t ggml_type, std::span<const uint64_t> dims,
                              std::span<const uint8_t> bytes) {
  tensors_.push_back({std::string(name), ggml_type, {dims.begin(), dims.end()}, data_.size()});
  data_.insert(data_.end(), bytes.begin(), bytes.end());
  data_.resize(RoundUp(data_.size(), options_.alignment));
}

std::vector<uint8_t> GgufWriter::Build() const {
  const bool writes_alignment = options_.alignment != 32;
  std::vector<uint8_t> file = {'G', 'G', 'U', 'F'};
  AppendScalar<uint32_t>(options_.version, file);
  AppendScalar<uint64_t>(tensors_.size(), file);
  AppendScalar<uint64_t>(num_metadata_ + (writes_alignment ? 1 : 0), file);
  if (writes_alignment) {
    AppendString("general.alignment", file);
    AppendScalar<uint32_t>(static_cast<uint32_t>(GgufType::kU32), file);
    AppendScalar<uint32_t>(static_cast<uint32_t>(options_.alignment), file);
  }
  file.insert(file.end(), metadata_.begin(), metadata_.end());
  for (const Tensor& tensor : tensors_) {
    AppendString(tensor.name, file);
    AppendScalar<uint32_t>(static_cast<uint32_t>(tensor.dims.size()), file);
    for (const uint64_t dim : tensor.dims) AppendScalar<uint64_t>(dim, file);
    AppendScalar<uint32_t>(tensor.ggml_type, file);
    AppendScalar<uint64_t>(tensor.offset, file);
  }
  file.resize(RoundUp(file.size(), options_.alignment));
  file.insert(file.end(), data_.begin(), data_.end());
  return file;
}

Status GgufWriter::WriteTo(FileSystem& fs, const std::string& path) const {
  KVERN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, fs.Create(path));
  KVERN_RETURN_IF_ERROR(file->Append(Build()));
  return file->Close();
}

}  // namespace kvern
