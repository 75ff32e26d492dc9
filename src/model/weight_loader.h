// WeightLoader: takes tensors out of a GGUF file by name and shape, packs them with all workers, and knows which were
// left.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "gguf/gguf_file.h"
#include "kernels/packed_matrix.h"
#include "model/model.h"

namespace kvern {

class WeightLoader {
 public:
  // Both must outlive the loader.
  WeightLoader(const GgufFile& file, const ModelOptions& options);

  bool Has(const std::string& name) const;
  // The matrix `name` that maps num_inputs to num_outputs, packed. kCorruption where it is missing, misshapen or holds
  // values that are not finite; kUnsupported for its type; kCancelled when the progress callback says so.
  Result<PackedMatrix> Matrix(const std::string& name, uint32_t num_inputs, uint32_t num_outputs);
  // The vector `name` of `size` values as f32.
  Result<std::vector<float>> Vector(const std::string& name, uint32_t size);

  // The same for weights of query and key heads in files whose RoPE pairs are dims i and i + rope_dim / 2 ("NeoX"):
  // outputs, or values, come in the order that makes pairs adjacent, as files of architecture "llama" have them. Scores
  // are sums over all dims of a head, so what attention gives stays the same.
  Result<PackedMatrix> MatrixWithPairedRows(const std::string& name, uint32_t num_inputs, uint32_t num_outputs,
                                            uint32_t head_dim, uint32_t rope_dim);
  Result<std::vector<float>> VectorInPairs(const std::string& name, uint32_t head_dim, uint32_t rope_dim);

  // kUnsupported where the file holds a tensor that nobody took: running without it would give wrong text.
  Status CheckAllTaken() const;

  uint64_t packed_bytes() const { return packed_bytes_; }

 private:
  Result<TensorView> Take(const std::string& name, uint64_t dim0, uint64_t dim1);
  // A matrix of the rows that `tensor` shows.
  Result<PackedMatrix> Pack(const TensorView& tensor);
  // Gives the pages of a tensor back that has been read, and reports progress.
  Status Done(const TensorView& tensor);

  const GgufFile& file_;
  const ModelOptions& options_;
  std::unordered_set<std::string> taken_;
  uint64_t packed_bytes_ = 0;
  uint64_t file_bytes_done_ = 0;
};

}  // namespace kvern
