#include "engine/score_job.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/scalar_math.h"

namespace kvern {

ScoreJob::ScoreJob(KvCache& cache, ScoreRequest request)
    : request_(std::move(request)), cache_(cache, request_.tokens.size() - 1) {
  KVERN_CHECK(request_.first_scored >= 1 && request_.first_scored < request_.tokens.size());
  scores_.reserve(request_.tokens.size() - request_.first_scored);
}

Result<std::vector<TokenScore>> ScoreJob::Wait(const ScoreProgress& progress) {
  uint64_t reported = 0;
  std::unique_lock lock(mutex_);
  const auto has_news = [&] { return progress && !is_cancelled_ && tokens_done_ != reported; };
  while (true) {
    changed_.wait(lock, [&] { return is_finished_ || has_news(); });
    if (!has_news()) break;
    reported = tokens_done_;
    lock.unlock();
    const bool goes_on = progress(reported);
    lock.lock();
    is_cancelled_ = !goes_on;
  }
  if (!status_.ok()) return status_;
  if (is_cancelled_) return Status::Cancelled("scoring was cancelled");
  return std::move(scores_);
}

uint64_t ScoreJob::NumUnscored(uint64_t count) const {
  const uint64_t first_scored_row = request_.first_scored - 1;
  const uint64_t begin = cache_.num_tokens();
  return first_scored_row <= begin ? 0 : std::min(count, first_scored_row - begin);
}

bool ScoreJob::is_cancelled() const {
  const std::lock_guard lock(mutex_);
  return is_cancelled_;
}

Status ScoreJob::OnLogits(uint64_t count, std::span<float> logits, const KernelTable& kernels, ThreadPool* workers) {
  const uint64_t begin = cache_.num_tokens();
  const uint64_t first_row = begin + NumUnscored(count);
  const uint64_t num_rows = begin + count - first_row;
  cache_.Commit(count);
  if (num_rows > 0) {
    const size_t vocab_size = logits.size() / num_rows;
    const size_t first_score = scores_.size();
    scores_.resize(first_score + num_rows);
    const auto score_rows = [&](uint64_t from, uint64_t to) {
      for (uint64_t i = from; i < to; ++i) {
        const TokenId target = request_.tokens[first_row + i + 1];
        scores_[first_score + i] = ScoreRow(logits.subspan(i * vocab_size, vocab_size), target, kernels);
      }
    };
    if (workers != nullptr) {
      workers->Run([&](Worker& worker) {
        const Worker::Range part = worker.Part(num_rows);
        score_rows(part.begin, part.end);
      });
    } else {
      score_rows(0, num_rows);
    }
    for (uint64_t i = 0; i < num_rows; ++i) {
      if (!std::isnan(scores_[first_score + i].log_prob)) continue;
      return Status::Corruption("the model produced logits that are not finite after token " +
                                std::to_string(first_row + i));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    tokens_done_ = begin + count + (num_pending() == 0 ? 1 : 0);
  }
  changed_.notify_all();
  return Status::Ok();
}

void ScoreJob::Finish(Status status) {
  {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    is_finished_ = true;
  }
  changed_.notify_all();
}

TokenScore ScoreRow(std::span<float> logits, TokenId target, const KernelTable& kernels) {
  const auto n = static_cast<uint32_t>(logits.size());
  const uint32_t best = kernels.argmax(logits.data(), n);
  const double max = static_cast<double>(logits[best]);
  const double shifted = static_cast<double>(logits[static_cast<size_t>(target)]) - max;
  const double sum = static_cast<double>(kernels.exp_shifted(logits.data(), n, 1.0f, logits.data()));
  return {.log_prob = static_cast<float>(shifted - ExactLog(sum)), .most_likely = static_cast<TokenId>(best)};
}

}  // namespace kvern
