#include "model/weight_loader.h"

#include <cmath>
#include <cstring>

#include "tensor/quant_formats.h"

namespace kvern {
namespace {

std::string Shape(const TensorView& tensor) {
  std::string text = "[";
  for (uint32_t i = 0; i < tensor.num_dims; ++i) text += (i == 0 ? "" : ", ") + std::to_string(tensor.dims[i]);
  return text + "]";
}

// Where dim `dim` of a head whose pairs are adjacent stands in one whose pairs are i and i + rope_dim / 2.
uint32_t UnpairedDim(uint32_t dim, uint32_t rope_dim) {
  return dim < rope_dim ? dim / 2 + dim % 2 * (rope_dim / 2) : dim;
}

}  // namespace

WeightLoader::WeightLoader(const GgufFile& file, const ModelOptions& options) : file_(file), options_(options) {}

bool WeightLoader::Has(const std::string& name) const { return file_.HasTensor(name); }

Result<TensorView> WeightLoader::Take(const std::string& name, uint64_t dim0, uint64_t dim1) {
  if (!Has(name)) return Status::Corruption(file_.path() + ": tensor " + name + " is missing");
  KVERN_ASSIGN_OR_RETURN(TensorView tensor, file_.Tensor(name));
  if (tensor.dims[0] != dim0 || tensor.num_rows() != dim1) {
    return Status::Corruption(file_.path() + ": tensor " + name + " has the shape " + Shape(tensor) + ", expected [" +
                              std::to_string(dim0) + (dim1 == 1 ? "" : ", " + std::to_string(dim1)) + "]");
  }
  taken_.insert(name);
  return tensor;
}

Result<PackedMatrix> WeightLoader::Matrix(const std::string& name, uint32_t num_inputs, uint32_t num_outputs) {
  KVERN_ASSIGN_OR_RETURN(const TensorView tensor, Take(name, num_inputs, num_outputs));
  KVERN_ASSIGN_OR_RETURN(PackedMatrix matrix, Pack(tensor));
  KVERN_RETURN_IF_ERROR(Done(tensor));
  return matrix;
}

Result<PackedMatrix> WeightLoader::MatrixWithPairedRows(const std::string& name, uint32_t num_inputs,
                                                        uint32_t num_outputs, uint32_t head_dim, uint32_t rope_dim) {
  KVERN_ASSIGN_OR_RETURN(const TensorView tensor, Take(name, num_inputs, num_outputs));
  KVERN_ASSIGN_OR_RETURN(AlignedBuffer paired, options_.allocator->Allocate(tensor.data.size()));
  for (uint32_t row = 0; row < num_outputs; ++row) {
    const std::span<const uint8_t> from = tensor.row(row - row % head_dim + UnpairedDim(row % head_dim, rope_dim));
    std::memcpy(paired.data() + row * tensor.row_bytes(), from.data(), from.size());
  }
  TensorView view = tensor;
  view.name += " (its rows in RoPE pairs)";  // For messages that count rows.
  view.data = paired.bytes();
  KVERN_ASSIGN_OR_RETURN(PackedMatrix matrix, Pack(view));
  KVERN_RETURN_IF_ERROR(Done(tensor));
  return matrix;
}

Result<PackedMatrix> WeightLoader::Pack(const TensorView& tensor) {
  KVERN_ASSIGN_OR_RETURN(PackedMatrix matrix, PackedMatrix::Allocate(tensor, *options_.allocator));
  std::vector<Status> outcomes(options_.pool->num_threads());
  options_.pool->Run([&](Worker& worker) {
    const Worker::Range part = worker.Part(matrix.view().num_panels());
    outcomes[worker.index()] =
        matrix.PackPanels(tensor, static_cast<uint32_t>(part.begin), static_cast<uint32_t>(part.end));
  });
  for (Status& outcome : outcomes) {
    if (!outcome.ok()) return Status(outcome.code(), file_.path() + ": " + outcome.message());
  }
  packed_bytes_ += matrix.size_bytes();
  return matrix;
}

Result<std::vector<float>> WeightLoader::Vector(const std::string& name, uint32_t size) {
  KVERN_ASSIGN_OR_RETURN(const TensorView tensor, Take(name, size, 1));
  std::vector<float> values(size);
  DecodeRow(tensor.dtype, tensor.data, values);
  for (uint32_t i = 0; i < size; ++i) {
    if (!std::isfinite(values[i])) {
      return Status::Corruption(file_.path() + ": tensor " + name + " holds " + std::to_string(values[i]) + " at " +
                                std::to_string(i) + ", expected finite values");
    }
  }
  KVERN_RETURN_IF_ERROR(Done(tensor));
  return values;
}

Result<std::vector<float>> WeightLoader::VectorInPairs(const std::string& name, uint32_t head_dim, uint32_t rope_dim) {
  KVERN_ASSIGN_OR_RETURN(const std::vector<float> values, Vector(name, head_dim));
  std::vector<float> paired(head_dim);
  for (uint32_t dim = 0; dim < head_dim; ++dim) paired[dim] = values[UnpairedDim(dim, rope_dim)];
  return paired;
}

Status WeightLoader::Done(const TensorView& tensor) {
  file_.Release(tensor);
  file_bytes_done_ += tensor.data.size();
  if (options_.progress && !options_.progress(file_bytes_done_, file_.file_bytes())) {
    return Status::Cancelled(file_.path() + ": loading was cancelled");
  }
  return Status::Ok();
}

Status WeightLoader::CheckAllTaken() const {
  for (const GgufTensorInfo& tensor : file_.tensors()) {
    if (!taken_.contains(std::string(tensor.name))) {
      return Status::Unsupported(file_.path() + ": tensor " + std::string(tensor.name) +
                                 " has no place in this architecture, so its text would be wrong without it");
    }
  }
  return Status::Ok();
}

}  // namespace kvern
