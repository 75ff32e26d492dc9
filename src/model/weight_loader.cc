#include "model/weight_loader.h"

#include <cmath>

#include "tensor/quant_formats.h"

namespace kvern {
namespace {

std::string Shape(const TensorView& tensor) {
  std::string text = "[";
  for (uint32_t i = 0; i < tensor.num_dims; ++i) text += (i == 0 ? "" : ", ") + std::to_string(tensor.dims[i]);
  return text + "]";
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
  KVERN_RETURN_IF_ERROR(Done(tensor));
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
