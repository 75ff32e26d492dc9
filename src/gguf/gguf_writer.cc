#include "gguf/gguf_writer.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/checked_math.h"
#include "tensor/quant_formats.h"

namespace kvern {
namespace {

constexpr uint64_t kPartBytes = 4 << 20;  // Made and written at once of a streamed tensor.

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

void GgufWriter::AddStreamedTensor(std::string_view name, DType dtype, std::span<const uint64_t> dims,
                                   TensorSource source) {
  const DTypeInfo& info = GetDTypeInfo(dtype);
  KVERN_CHECK(!dims.empty() && dims.size() <= 4 && dims[0] % info.block_elements == 0 && source != nullptr);
  Append({.name = std::string(name),
          .ggml_type = static_cast<uint32_t>(dtype),
          .dims = {dims.begin(), dims.end()},
          .offset = data_bytes_,
          .num_bytes = RowBytes(dtype, Product(dims)),
          .bytes = {},
          .source = std::move(source),
          .source_unit = info.block_bytes});
}

void GgufWriter::AddRawTensor(std::string_view name, uint32_t ggml_type, std::span<const uint64_t> dims,
                              std::span<const uint8_t> bytes) {
  Append({.name = std::string(name),
          .ggml_type = ggml_type,
          .dims = {dims.begin(), dims.end()},
          .offset = data_bytes_,
          .num_bytes = bytes.size(),
          .bytes = {bytes.begin(), bytes.end()},
          .source = {},
          .source_unit = 0});
}

void GgufWriter::Append(Tensor tensor) {
  data_bytes_ += RoundUp(tensor.num_bytes, options_.alignment);
  tensors_.push_back(std::move(tensor));
}

std::vector<uint8_t> GgufWriter::Head() const {
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
  return file;
}

std::vector<uint8_t> GgufWriter::Build() const {
  std::vector<uint8_t> file = Head();
  file.reserve(file.size() + data_bytes_);
  for (const Tensor& tensor : tensors_) {
    KVERN_CHECK(tensor.source == nullptr);
    file.insert(file.end(), tensor.bytes.begin(), tensor.bytes.end());
    file.resize(RoundUp(file.size(), options_.alignment));
  }
  return file;
}

Status GgufWriter::WriteStreamed(const Tensor& tensor, WritableFile& file) {
  const uint64_t part_bytes = std::max<uint64_t>(1, kPartBytes / tensor.source_unit) * tensor.source_unit;
  std::vector<uint8_t> part;
  for (uint64_t done = 0; done < tensor.num_bytes; done += part.size()) {
    part.resize(std::min(part_bytes, tensor.num_bytes - done));
    KVERN_RETURN_IF_ERROR(tensor.source(part));
    KVERN_RETURN_IF_ERROR(file.Append(part));
  }
  return Status::Ok();
}

Status GgufWriter::WriteTo(FileSystem& fs, const std::string& path) const {
  KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs.Create(path));
  KVERN_RETURN_IF_ERROR(file->Append(Head()));
  for (const Tensor& tensor : tensors_) {
    KVERN_RETURN_IF_ERROR(tensor.source != nullptr ? WriteStreamed(tensor, *file) : file->Append(tensor.bytes));
    const std::vector<uint8_t> padding(RoundUp(tensor.num_bytes, options_.alignment) - tensor.num_bytes);
    KVERN_RETURN_IF_ERROR(file->Append(padding));
  }
  return file->Close();
}

}  // namespace kvern
