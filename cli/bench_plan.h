// What kvern bench measures: its rows, and the room that each needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvern/diagnostics.h"
#include "kvern/engine.h"

namespace kvern::cli {

enum class BenchKind : uint8_t {
  kPrefill,  // A prompt of `length` tokens.
  kDecode,   // One sequence, from `length` tokens on.
  kBatch,    // `num_sequences` that decode together: prompts of their own or one that they share.
};

// One line of the result.
struct BenchRow {
  BenchKind kind = BenchKind::kPrefill;
  uint32_t length = 0;         // Tokens of each sequence's own prompt; a decode at 0 starts from one token.
  uint32_t shared_prompt = 0;  // Tokens of the prompt that all share; 0: each has its own.
  uint32_t num_sequences = 1;
  std::vector<double> samples = {};  // Tokens per second, all sequences together.
  MachineLimits limits = {};         // As they were just before the samples; zeros where they were not probed.
};

// "prefill 512", "decode at 1024", "8 sequences", "8 sequences, shared 2048".
std::string NameOf(const BenchRow& row);

// Which rows to measure and how.
struct BenchPlan {
  std::vector<uint32_t> prefill;  // Lengths.
  std::vector<uint32_t> depth;    // Tokens in the context where decoding begins.
  std::vector<uint32_t> batch;    // Numbers of sequences.
  uint32_t own_prompt = 16;       // Of each sequence of a batch.
  uint32_t shared_prompt = 2048;  // Of all sequences of a batch; 0: no such rows.
  uint32_t num_generated = 64;    // Tokens of each sequence in one sample.
  uint32_t repetitions = 5;       // Samples per row.

  // kInvalidArgument where a count makes no sense.
  Status Validate() const;
  std::vector<BenchRow> Rows() const;

  uint32_t PromptTokens(const BenchRow& row) const;
  // Long prompts are computed once and decoding then goes on from sample to sample; short ones once for each sample.
  uint32_t SamplesPerRun(const BenchRow& row) const;
  // Tokens that one run generates for each sequence.
  uint32_t AnswerTokens(const BenchRow& row) const;
  uint64_t ContextTokens(const BenchRow& row) const { return uint64_t{PromptTokens(row)} + AnswerTokens(row); }
  // Tokens of all sequences together, in whole blocks, what they share once.
  uint64_t CacheTokens(const BenchRow& row, uint32_t block_size) const;
};

// Takes out the rows that do not fit `options` or the model, says so on stderr, and sizes what the user left open:
// context, budget and sequences at once.
void FitRows(const BenchPlan& plan, const ModelInfo& model, EngineOptions& options, std::vector<BenchRow>& rows);

}  // namespace kvern::cli
