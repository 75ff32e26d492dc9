// RecordingModel: a model that shows the logits that it gives, row by row in their order, before the engine gets them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "model/model.h"

namespace kvern {

class RecordingModel : public Model {
 public:
  using Keep = std::function<void(std::vector<float> row)>;
  RecordingModel(std::unique_ptr<Model> model, Keep keep) : model_(std::move(model)), keep_(std::move(keep)) {}

  const ModelConfig& config() const override { return model_->config(); }
  uint64_t weight_bytes() const override { return model_->weight_bytes(); }
  Result<ForwardStats> Forward(const ForwardBatch& batch, std::span<float> logits) override {
    Result<ForwardStats> stats = model_->Forward(batch, logits);
    const size_t vocab_size = config().vocab_size;
    for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
      const std::span<float> row = logits.subspan(i * vocab_size, vocab_size);
      keep_({row.begin(), row.end()});
    }
    return stats;
  }

 private:
  std::unique_ptr<Model> model_;
  Keep keep_;
};

}  // namespace kvern
