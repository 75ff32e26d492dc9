#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/attention_tile.h"
#include "kernels/dispatch.h"
#include "tensor/half.h"

namespace kvern {
namespace {

constexpr uint32_t kWhole = UINT32_MAX;  // As a chunk: all rows of a sequence at once.
constexpr uint8_t kNanByte = 0xff;       // As every byte of a float it makes a NaN, as those of a scale too.
constexpr KvType kAllTypes[] = {KvType::kF32,    KvType::kF16, KvType::kBF16, KvType::kF8E4M3,
                                KvType::kF8E5M2, KvType::kI8,  KvType::kI4,   KvType::kI4Head};

struct Shape {
  uint32_t num_kv_heads = 1;
  uint32_t group_size = 1;
  uint32_t head_dim = 64;
  uint32_t block_size = 64;
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;

  uint32_t num_heads() const { return num_kv_heads * group_size; }
  uint32_t q_floats() const { return num_heads() * head_dim; }
  uint32_t kv_floats() const { return num_kv_heads * head_dim; }
};

// A sequence whose tokens [0, first_query) are in the cache already; attention is computed for [first_query, end).
struct Sequence {
  uint32_t first_query;
  uint32_t end;
  std::vector<float> q;     // [end - first_query][q_floats]
  std::vector<float> k, v;  // [end][kv_floats]

  uint32_t num_queries() const { return end - first_query; }
};

Sequence MakeSequence(const Shape& shape, uint32_t first_query, uint32_t end, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Sequence sequence{first_query, end, {}, {}, {}};
  sequence.q.resize(size_t{end - first_query} * shape.q_floats());
  sequence.k.resize(size_t{end} * shape.kv_floats());
  sequence.v.resize(sequence.k.size());
  for (float& x : sequence.q) x = 1.5f * normal(random);
  for (float& x : sequence.k) x = normal(random);
  for (float& x : sequence.v) x = normal(random);
  return sequence;
}

// Sequences of which all begin with the same `num_common` tokens, go on for different lengths and have up to three
// tokens to compute.
std::vector<Sequence> MakeSequencesWithPrefix(const Shape& shape, uint32_t num_sequences, uint32_t num_common) {
  std::vector<Sequence> sequences;
  for (uint32_t s = 0; s < num_sequences; ++s) {
    const uint32_t first_query = num_common + s * 97 % 310;
    sequences.push_back(MakeSequence(shape, first_query, first_query + 1 + s % 3, s));
    const auto num_floats = static_cast<ptrdiff_t>(size_t{num_common} * shape.kv_floats());
    std::copy_n(sequences[0].k.begin(), num_floats, sequences[s].k.begin());
    std::copy_n(sequences[0].v.begin(), num_floats, sequences[s].v.begin());
  }
  return sequences;
}

// K and V of one layer for some sequences, over scattered blocks. Slots that were never written hold `fill`. Sequences
// of a prefix have the same blocks for it.
class PagedCache {
 public:
  PagedCache(const Shape& shape, std::span<const Sequence> sequences, uint8_t fill,
             std::span<const SharedPrefix> prefixes = {}) {
    view_.block_size = shape.block_size;
    view_.num_kv_heads = shape.num_kv_heads;
    view_.head_dim = shape.head_dim;
    view_.k_type = shape.k_type;
    view_.v_type = shape.v_type;
    view_.layer_stride = view_.LayOutHeads();
    view_.block_stride = view_.layer_stride;

    std::vector<BlockIndex> order;
    for (const Sequence& sequence : sequences) {
      tables_.emplace_back((sequence.end + shape.block_size - 1) / shape.block_size);
      for (size_t i = 0; i < tables_.back().size(); ++i) order.push_back(static_cast<BlockIndex>(order.size()));
    }
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
    for (std::vector<BlockIndex>& table : tables_) {
      for (BlockIndex& block : table) {
        block = order.back();
        order.pop_back();
      }
    }
    size_t num_blocks = 0;
    for (const std::vector<BlockIndex>& table : tables_) num_blocks += table.size();
    for (const SharedPrefix& prefix : prefixes) {
      const std::vector<BlockIndex>& first = tables_[prefix.first_sequence];
      for (uint32_t s = 1; s < prefix.num_sequences; ++s) {
        std::copy_n(first.begin(), (prefix.num_tokens + shape.block_size - 1) / shape.block_size,
                    tables_[prefix.first_sequence + s].begin());
      }
    }
    memory_ = HeapAllocator().Allocate(num_blocks * view_.block_stride).value();
    std::memset(memory_.data(), fill, memory_.size());
    view_.base = memory_.data();
  }

  const KvView& view() const { return view_; }
  std::span<const BlockIndex> table(size_t sequence) const { return tables_[sequence]; }

  void Store(const KernelTable& kernels, const Sequence& sequence, size_t index, uint32_t begin, uint32_t end) {
    const size_t floats = size_t{view_.num_kv_heads} * view_.head_dim;
    for (uint32_t t = begin; t < end; ++t) {
      kernels.store_kv(view_, 0, tables_[index][t / view_.block_size], t % view_.block_size,
                       sequence.k.data() + t * floats, sequence.v.data() + t * floats);
    }
  }

 private:
  KvView view_;
  AlignedBuffer memory_;
  std::vector<std::vector<BlockIndex>> tables_;
};

struct Outcome {
  std::vector<std::vector<float>> out;  // Per sequence [num_queries][q_floats].
  uint64_t num_products = 0;
};

// Runs all sequences as one batch, `chunk` tokens of each per step.
Outcome RunAttention(const KernelTable& kernels, const Shape& shape, std::span<const Sequence> sequences,
                     uint32_t chunk = kWhole, uint32_t num_workers = 1, uint8_t fill = kNanByte,
                     std::span<const SharedPrefix> prefixes = {}) {
  PagedCache cache(shape, sequences, fill, prefixes);
  ThreadPool pool(num_workers);
  AttentionPlan plan;
  Outcome outcome;
  std::vector<uint32_t> done;
  for (size_t s = 0; s < sequences.size(); ++s) {
    outcome.out.emplace_back(sequences[s].q.size());
    done.push_back(0);
    cache.Store(kernels, sequences[s], s, 0, sequences[s].first_query);
  }
  for (;;) {
    std::vector<SequenceRows> rows;
    std::vector<float> q;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const Sequence& sequence = sequences[s];
      const uint32_t count = std::min(chunk, sequence.num_queries() - done[s]);
      const uint32_t position = sequence.first_query + done[s];
      cache.Store(kernels, sequence, s, position, position + count);
      rows.push_back({static_cast<uint32_t>(q.size() / shape.q_floats()), count, position, cache.table(s)});
      const auto first = sequence.q.begin() + static_cast<ptrdiff_t>(size_t{done[s]} * shape.q_floats());
      q.insert(q.end(), first, first + static_cast<ptrdiff_t>(size_t{count} * shape.q_floats()));
    }
    if (q.empty()) return outcome;

    std::vector<float> out(q.size(), -1.0f);
    const AttentionArgs args{q.data(),          shape.q_floats(),
                             out.data(),        shape.q_floats(),
                             cache.view(),      0,
                             shape.num_heads(), 1.0f / std::sqrt(static_cast<float>(shape.head_dim))};
    EXPECT_TRUE(plan.Build(kernels, rows, prefixes, {shape.num_heads(), shape.num_kv_heads, shape.head_dim},
                           pool.num_threads(), HeapAllocator())
                    .ok());
    std::atomic<uint64_t> num_products{0};
    pool.Run([&](Worker& worker) { num_products += plan.Run(args, worker); });
    outcome.num_products += num_products;
    for (size_t s = 0; s < sequences.size(); ++s) {
      std::memcpy(outcome.out[s].data() + size_t{done[s]} * shape.q_floats(),
                  out.data() + size_t{rows[s].first_row} * shape.q_floats(),
                  size_t{rows[s].num_rows} * shape.q_floats() * sizeof(float));
      done[s] += rows[s].num_rows;
    }
  }
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0 || (std::isnan(a) && std::isnan(b)); }

// The first difference in words, or "" where all bits are equal (any NaN equals any NaN).
std::string Difference(const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return "different sizes";
  for (size_t i = 0; i < actual.size(); ++i) {
    if (SameBits(actual[i], expected[i])) continue;
    return "at " + std::to_string(i) + ": " + std::to_string(actual[i]) + " != " + std::to_string(expected[i]);
  }
  return "";
}

double Stored(float x, KvType type) { return type == KvType::kF16 ? F16ToF32(F32ToF16(x)) : x; }

std::vector<double> ReferenceInDouble(const Shape& shape, const Sequence& sequence) {
  const uint32_t dim = shape.head_dim;
  std::vector<double> out(sequence.q.size());
  for (uint32_t row = 0; row < sequence.num_queries(); ++row) {
    for (uint32_t head = 0; head < shape.num_heads(); ++head) {
      const float* const q = sequence.q.data() + size_t{row} * shape.q_floats() + head * dim;
      const size_t kv_offset = size_t{head / shape.group_size} * dim;
      double* const y = out.data() + size_t{row} * shape.q_floats() + head * dim;
      std::vector<double> scores(sequence.first_query + row + 1);
      for (size_t t = 0; t < scores.size(); ++t) {
        const float* const k = sequence.k.data() + t * shape.kv_floats() + kv_offset;
        for (uint32_t d = 0; d < dim; ++d) scores[t] += q[d] * Stored(k[d], shape.k_type);
        scores[t] /= std::sqrt(static_cast<double>(dim));
      }
      const double max = *std::max_element(scores.begin(), scores.end());
      double sum = 0;
      for (size_t t = 0; t < scores.size(); ++t) {
        const float* const v = sequence.v.data() + t * shape.kv_floats() + kv_offset;
        const double weight = std::exp(scores[t] - max);
        sum += weight;
        for (uint32_t d = 0; d < dim; ++d) y[d] += weight * Stored(v[d], shape.v_type);
      }
      for (uint32_t d = 0; d < dim; ++d) y[d] /= sum;
    }
  }
  return out;
}

const KernelTable& Generic() { return *RunnableTargets().front(); }

class AttentionTest : public testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& kernels() const { return *GetParam(); }
};

std::string TargetName(const testing::TestParamInfo<const KernelTable*>& target) {
  std::string name = target.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Targets, AttentionTest, testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()),
                         TargetName);

// Scores reach about 6 sigma = 9 * sqrt(dim) before scaling; their f32 rounding errors (a chain of dim additions, 2^-24
// each of the partial sum) come to some 1e-6 and enter the weights as relative errors. Values are of size 1.
TEST_P(AttentionTest, IsWithin1e5OfDoublePrecision) {
  for (const uint32_t dim : {32u, 64u, 256u}) {
    const Shape shape{2, 3, dim, 32, KvType::kF16, KvType::kF32};
    const std::vector<Sequence> sequences = {MakeSequence(shape, 500, 520, dim)};

    const Outcome outcome = RunAttention(kernels(), shape, sequences);

    const std::vector<double> expected = ReferenceInDouble(shape, sequences[0]);
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) worst = std::fmax(worst, std::fabs(outcome.out[0][i] - expected[i]));
    EXPECT_LE(worst, 1e-5) << "head_dim " << dim;
  }
}

// Codes of keys round scores by little. What is lost or won between the rotation of keys and that of queries would
// change them as a whole, by a factor that only some head sizes have.
TEST_P(AttentionTest, RotatedKeysAreScoredAsTheKeysThatTheyWere) {
  constexpr std::pair<KvType, double> kLimits[] = {{KvType::kI8, 5e-4}, {KvType::kI4, 0.05}, {KvType::kI4Head, 0.05}};
  for (const auto& [type, limit] : kLimits) {
    for (const uint32_t dim : {32u, 64u, 128u, 256u}) {
      const Shape shape{1, 2, dim, 32, type, KvType::kF32};
      const std::vector<Sequence> sequences = {MakeSequence(shape, 300, 310, dim)};

      const Outcome outcome = RunAttention(kernels(), shape, sequences);

      const std::vector<double> expected = ReferenceInDouble(shape, sequences[0]);
      double error = 0, size = 0;
      for (size_t i = 0; i < expected.size(); ++i) {
        error += std::pow(outcome.out[0][i] - expected[i], 2);
        size += std::pow(expected[i], 2);
      }
      EXPECT_LE(error / size, limit) << "type " << int(type) << ", head_dim " << dim;
    }
  }
}

TEST_P(AttentionTest, EqualsGenericForAllHeadSizesAndGroups) {
  uint32_t group_size = 0;
  for (const uint32_t dim : {16u, 32u, 64u, 80u, 96u, 128u, 192u, 256u, 64u, 128u}) {
    group_size = group_size % 9 + 1;
    const Shape shape{2, group_size, dim, 32};
    const std::vector<Sequence> sequences = {MakeSequence(shape, 252, 259, dim)};
    const Outcome expected = RunAttention(Generic(), shape, sequences);

    for (const uint32_t chunk : {1u, kWhole}) {
      const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk);

      EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "")
          << "head_dim " << dim << ", group " << group_size << ", chunk " << chunk;
    }
  }
}

TEST_P(AttentionTest, EqualsGenericForAllTypesOfKAndV) {
  for (const KvType k_type : {KvType::kF32, KvType::kF16}) {
    for (const KvType v_type : {KvType::kF32, KvType::kF16}) {
      const Shape shape{1, 3, 64, 64, k_type, v_type};
      const std::vector<Sequence> sequences = {MakeSequence(shape, 500, 520, 3)};
      const Outcome expected = RunAttention(Generic(), shape, sequences);

      for (const uint32_t chunk : {1u, 7u, kWhole}) {
        const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk);

        EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "")
            << "K " << int(k_type) << ", V " << int(v_type) << ", chunk " << chunk;
      }
    }
  }
}

// Every codec once as K and once as V, and the pairs that people use. Chunks cover decode, few rows and prefill; the
// tokens lie around the end of a split.
TEST_P(AttentionTest, EqualsGenericForAllCodecs) {
  constexpr std::pair<KvType, KvType> kPairs[] = {
      {KvType::kBF16, KvType::kBF16},     {KvType::kF8E4M3, KvType::kF8E5M2}, {KvType::kF8E5M2, KvType::kF8E4M3},
      {KvType::kI8, KvType::kI8},         {KvType::kI8, KvType::kI4},         {KvType::kI4, KvType::kI4Head},
      {KvType::kI4Head, KvType::kI4Head}, {KvType::kF16, KvType::kI8},        {KvType::kI4, KvType::kBF16},
  };
  for (const auto& [k_type, v_type] : kPairs) {
    const Shape shape{1, 3, 64, 32, k_type, v_type};
    const std::vector<Sequence> sequences = {MakeSequence(shape, 500, 527, 3)};
    const Outcome expected = RunAttention(Generic(), shape, sequences);

    for (const uint32_t chunk : {1u, 2u, 7u, kWhole}) {
      for (const uint32_t num_workers : {1u, 2u}) {
        const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk, num_workers);

        EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "")
            << "K " << int(k_type) << ", V " << int(v_type) << ", chunk " << chunk << ", workers " << num_workers;
      }
    }
  }
}

TEST_P(AttentionTest, CodecsEqualGenericForHeadSizesAndGroups) {
  constexpr KvType kTypes[] = {KvType::kBF16, KvType::kF8E4M3, KvType::kI8, KvType::kI4, KvType::kI4Head};
  uint32_t group_size = 0;
  for (const uint32_t dim : {16u, 32u, 80u, 96u, 128u, 256u}) {
    for (const KvType type : kTypes) {
      if (ShapeOf(type).rotation == KvRotation::kAll && dim != 32 && dim != 128 && dim != 256) continue;
      group_size = group_size % 8 + 1;
      const Shape shape{2, group_size, dim, 32, type, type};
      const std::vector<Sequence> sequences = {MakeSequence(shape, 253, 258, dim)};
      const Outcome expected = RunAttention(Generic(), shape, sequences);

      for (const uint32_t chunk : {1u, kWhole}) {
        const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk);

        EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "")
            << "type " << int(type) << ", head_dim " << dim << ", group " << group_size << ", chunk " << chunk;
      }
    }
  }
}

TEST_P(AttentionTest, BlockSizesDoNotChangeABit) {
  Shape shape{1, 3, 64, 1024};
  const std::vector<Sequence> sequences = {MakeSequence(shape, 505, 530, 4)};
  const Outcome expected = RunAttention(Generic(), shape, sequences);

  for (const uint32_t block_size : {16u, 32u, 48u, 64u, 256u, 512u}) {
    shape.block_size = block_size;
    for (const uint32_t chunk : {1u, kWhole}) {
      const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk);

      EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "") << "block " << block_size << ", chunk " << chunk;
    }
  }
}

TEST_P(AttentionTest, ChunksDoNotChangeABit) {
  const Shape shape{1, 3, 64, 16};
  const std::vector<Sequence> sequences = {MakeSequence(shape, 0, 290, 5)};
  const Outcome expected = RunAttention(Generic(), shape, sequences);

  for (const uint32_t chunk : {1u, 2u, 3u, 4u, 5u, 7u, 16u, 17u, 64u, kWhole}) {
    const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk);

    EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "") << "chunk " << chunk;
  }
}

TEST_P(AttentionTest, ChunksOfAWindowEqualGeneric) {
  const Shape shape{1, 2, 32, 16};
  const std::vector<Sequence> sequences = {MakeSequence(shape, 490, 530, 6)};
  const Outcome expected = RunAttention(Generic(), shape, sequences, 64);

  for (const uint32_t chunk : {1u, 2u, 3u, 7u, 16u, 64u}) {
    const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk);

    EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "") << "chunk " << chunk;
  }
}

TEST_P(AttentionTest, WorkersAndNeighboursDoNotChangeABit) {
  const Shape shape{2, 3, 64, 32};
  const std::vector<Sequence> batch = {MakeSequence(shape, 700, 701, 1), MakeSequence(shape, 0, 1, 2),
                                       MakeSequence(shape, 240, 275, 3), MakeSequence(shape, 1030, 1033, 4),
                                       MakeSequence(shape, 255, 256, 5), MakeSequence(shape, 256, 257, 6)};
  std::vector<std::vector<float>> alone;
  for (const Sequence& sequence : batch) alone.push_back(RunAttention(Generic(), shape, {&sequence, 1}).out[0]);

  for (const uint32_t num_workers : {1u, 2u, 3u}) {
    for (const uint32_t chunk : {2u, kWhole}) {
      const Outcome outcome = RunAttention(kernels(), shape, batch, chunk, num_workers);

      for (size_t s = 0; s < batch.size(); ++s) {
        EXPECT_EQ(Difference(outcome.out[s], alone[s]), "")
            << "sequence " << s << ", chunk " << chunk << ", workers " << num_workers;
      }
    }
  }
}

TEST_P(AttentionTest, LongSequenceIsSharedBetweenWorkersWithoutChangingABit) {
  const Shape shape{1, 3, 64, 64};
  const std::vector<Sequence> sequences = {MakeSequence(shape, 3000, 3002, 8)};
  const Outcome expected = RunAttention(Generic(), shape, sequences);

  for (const uint32_t num_workers : {1u, 2u, 3u, 8u}) {
    const Outcome outcome = RunAttention(kernels(), shape, sequences, 1, num_workers);

    EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "") << "workers " << num_workers;
  }
}

// Below, a prefix of num_tokens stands in blocks that its sequences fill alike, so `num_common` is a multiple of the
// block size and at least num_tokens.
TEST_P(AttentionTest, SharedPrefixesDoNotChangeABit) {
  struct Case {
    uint32_t num_sequences, group_size, head_dim, block_size, num_common, num_tokens;
  };
  for (const Case& c : {Case{1, 3, 64, 32, 320, 300}, Case{2, 1, 16, 16, 256, 256}, Case{2, 3, 64, 64, 576, 570},
                        Case{3, 4, 80, 48, 624, 600}, Case{5, 8, 128, 256, 768, 768}, Case{8, 1, 64, 64, 576, 512},
                        Case{9, 3, 64, 16, 272, 260}, Case{40, 8, 16, 32, 544, 540}, Case{7, 4, 64, 64, 192, 192}}) {
    const Shape shape{2, c.group_size, c.head_dim, c.block_size};
    const std::vector<Sequence> sequences = MakeSequencesWithPrefix(shape, c.num_sequences, c.num_common);
    std::vector<std::vector<float>> alone;
    for (const Sequence& sequence : sequences) alone.push_back(RunAttention(Generic(), shape, {&sequence, 1}).out[0]);
    const SharedPrefix prefix{0, c.num_sequences, c.num_tokens};

    for (const uint32_t num_workers : {1u, 3u}) {
      for (const uint32_t chunk : {1u, kWhole}) {
        const Outcome outcome = RunAttention(kernels(), shape, sequences, chunk, num_workers, kNanByte, {&prefix, 1});

        for (size_t s = 0; s < sequences.size(); ++s) {
          EXPECT_EQ(Difference(outcome.out[s], alone[s]), "")
              << "sequence " << s << " of " << c.num_sequences << ", group " << c.group_size << ", head_dim "
              << c.head_dim << ", chunk " << chunk << ", workers " << num_workers;
        }
      }
    }
  }
}

TEST_P(AttentionTest, SharedPrefixesMixWithPrefillAndOtherSequences) {
  const Shape shape{2, 3, 64, 32};
  std::vector<Sequence> batch = {MakeSequence(shape, 40, 44, 100), MakeSequence(shape, 0, 30, 101)};
  const std::vector<SharedPrefix> prefixes = {{1, 1, 30}, {2, 5, 512}, {7, 4, 300}};
  for (Sequence& sequence : MakeSequencesWithPrefix(shape, 5, 512)) batch.push_back(std::move(sequence));
  for (Sequence& sequence : MakeSequencesWithPrefix(shape, 4, 320)) batch.push_back(std::move(sequence));
  // One of the first prefix is in prefill.
  Sequence prefill = MakeSequence(shape, 600, 640, 102);
  std::copy_n(batch[2].k.begin(), 512 * shape.kv_floats(), prefill.k.begin());
  std::copy_n(batch[2].v.begin(), 512 * shape.kv_floats(), prefill.v.begin());
  batch[4] = std::move(prefill);
  std::vector<std::vector<float>> alone;
  for (const Sequence& sequence : batch) alone.push_back(RunAttention(Generic(), shape, {&sequence, 1}).out[0]);

  for (const uint32_t num_workers : {1u, 2u, 5u}) {
    const Outcome outcome = RunAttention(kernels(), shape, batch, kWhole, num_workers, kNanByte, prefixes);

    for (size_t s = 0; s < batch.size(); ++s) {
      EXPECT_EQ(Difference(outcome.out[s], alone[s]), "") << "sequence " << s << ", workers " << num_workers;
    }
  }
}

TEST_P(AttentionTest, NonFiniteValuesOfASharedPrefixAreThoseOfEachSequenceAlone) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Shape shape{1, 3, 64, 32};
  const SharedPrefix prefix{0, 6, 512};
  for (const float value : {infinity, nan}) {
    for (const bool in_key : {true, false}) {
      std::vector<Sequence> sequences = MakeSequencesWithPrefix(shape, 6, 512);
      for (Sequence& sequence : sequences) (in_key ? sequence.k : sequence.v)[300 * shape.kv_floats() + 5] = value;

      const Outcome shared = RunAttention(kernels(), shape, sequences, kWhole, 2, kNanByte, {&prefix, 1});

      const Outcome expected = RunAttention(kernels(), shape, sequences);
      for (size_t s = 0; s < sequences.size(); ++s) EXPECT_EQ(Difference(shared.out[s], expected.out[s]), "");
    }
  }
}

// Only the first sequence has the prefix in its blocks; whoever read those of the others would see NaN.
TEST_P(AttentionTest, SharedSplitsAreReadThroughOneSequence) {
  const Shape shape{1, 3, 64, 64};
  for (const uint32_t num_sequences : {4u, 16u}) {
    const std::vector<Sequence> sequences = MakeSequencesWithPrefix(shape, num_sequences, 512);
    const Outcome expected = RunAttention(kernels(), shape, sequences);
    PagedCache cache(shape, sequences, kNanByte);
    std::vector<SequenceRows> rows;
    std::vector<float> q;
    for (uint32_t s = 0; s < num_sequences; ++s) {
      cache.Store(kernels(), sequences[s], s, s == 0 ? 0 : 512, sequences[s].end);
      rows.push_back({static_cast<uint32_t>(q.size() / shape.q_floats()), sequences[s].num_queries(),
                      sequences[s].first_query, cache.table(s)});
      q.insert(q.end(), sequences[s].q.begin(), sequences[s].q.end());
    }
    const SharedPrefix prefix{0, num_sequences, 512};
    std::vector<float> out(q.size());
    AttentionPlan plan;
    ThreadPool pool(2);
    ASSERT_TRUE(plan.Build(kernels(), rows, {&prefix, 1}, {3, 1, 64}, 2, HeapAllocator()).ok());

    pool.Run([&](Worker& worker) {
      plan.Run({q.data(), shape.q_floats(), out.data(), shape.q_floats(), cache.view(), 0, shape.num_heads(), 0.125f},
               worker);
    });

    std::vector<float> joined;
    for (const std::vector<float>& of_one : expected.out) joined.insert(joined.end(), of_one.begin(), of_one.end());
    EXPECT_EQ(Difference(out, joined), "") << num_sequences << " sequences";
  }
}

TEST_P(AttentionTest, SharingChangesNoCountOfProducts) {
  const Shape shape{2, 3, 64, 64};
  const std::vector<Sequence> sequences = MakeSequencesWithPrefix(shape, 9, 512);
  const SharedPrefix prefix{0, 9, 512};

  for (const uint32_t chunk : {1u, kWhole}) {
    EXPECT_EQ(RunAttention(kernels(), shape, sequences, chunk, 2, kNanByte, {&prefix, 1}).num_products,
              RunAttention(kernels(), shape, sequences, chunk).num_products);
  }
}

TEST_P(AttentionTest, UnusedSlotsMayHoldAnything) {
  for (const KvType type : kAllTypes) {
    const Shape shape{1, 3, 64, 256, type, type};
    const std::vector<Sequence> sequences = {MakeSequence(shape, 250, 275, 9)};

    for (const uint32_t chunk : {1u, 7u, kWhole}) {
      const Outcome over_nan = RunAttention(kernels(), shape, sequences, chunk, 1, kNanByte);
      const Outcome over_zero = RunAttention(kernels(), shape, sequences, chunk, 1, 0);

      EXPECT_EQ(Difference(over_nan.out[0], over_zero.out[0]), "") << "type " << int(type) << ", chunk " << chunk;
      EXPECT_FALSE(std::isnan(over_nan.out[0].back()));
    }
  }
}

class AttentionOfCodecsTest : public testing::TestWithParam<std::tuple<const KernelTable*, KvType>> {
 protected:
  const KernelTable& kernels() const { return *std::get<0>(GetParam()); }
  KvType type() const { return std::get<1>(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Targets, AttentionOfCodecsTest,
                         testing::Combine(testing::ValuesIn(RunnableTargets().begin(), RunnableTargets().end()),
                                          testing::ValuesIn(kAllTypes)),
                         [](const auto& param_info) {
                           std::string name = std::get<0>(param_info.param)->name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_type" + std::to_string(int(std::get<1>(param_info.param)));
                         });

// Against keys and values as they are stored, in double precision. A query of 15 bits is off by 1 / 32512 of its
// largest value (one of 8 bits by 1 / 254), weights of 15 bits by 1 / 65534 of theirs: with scores and values of size 1
// that stays below 1e-3 (1e-2).
TEST_P(AttentionOfCodecsTest, IsCloseToDoublePrecisionOnTheStoredRows) {
  const Shape shape{2, 3, 64, 32, type(), type()};
  const Sequence sequence = MakeSequence(shape, 300, 303, 4);
  PagedCache cache(shape, {&sequence, 1}, kNanByte);
  cache.Store(kernels(), sequence, 0, 0, sequence.end);
  Sequence stored = sequence;
  for (uint32_t t = 0; t < sequence.end; ++t) {
    kernels().load_kv(cache.view(), 0, cache.table(0)[t / 32], t % 32, stored.k.data() + t * shape.kv_floats(),
                      stored.v.data() + t * shape.kv_floats());
  }
  const Shape plain{2, 3, 64, 32, KvType::kF32, KvType::kF32};

  for (const uint32_t chunk : {1u, kWhole}) {
    const Outcome outcome = RunAttention(kernels(), shape, {&sequence, 1}, chunk);

    const std::vector<double> expected = ReferenceInDouble(plain, stored);
    double worst = 0;
    for (size_t i = 0; i < expected.size(); ++i) worst = std::fmax(worst, std::fabs(outcome.out[0][i] - expected[i]));
    const double tolerance = type() == KvType::kI4Head ? 1e-2 : ShapeOf(type()).codes_per_lane >= 4 ? 1e-3 : 1e-5;
    EXPECT_LE(worst, tolerance) << "chunk " << chunk;
  }
}

TEST_P(AttentionOfCodecsTest, NonFiniteKeysAndValuesReachTheRowsThatSeeThemAndNoOthers) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Shape shape{1, 3, 64, 32, type(), type()};
  const Sequence clean = MakeSequence(shape, 250, 275, 10);
  const uint32_t bad = 261;  // Position.
  const size_t row_floats = shape.q_floats(), bad_floats = size_t{bad - clean.first_query} * row_floats;
  const Outcome expected = RunAttention(kernels(), shape, {&clean, 1});

  for (const float value : {nan, infinity}) {
    for (const bool in_key : {true, false}) {
      Sequence sequence = clean;
      std::vector<float>& rows = in_key ? sequence.k : sequence.v;
      std::fill_n(rows.begin() + bad * shape.kv_floats(), shape.head_dim, value);
      std::vector<float> first;
      for (const uint32_t chunk : {1u, 2u, 7u, kWhole}) {
        const Outcome outcome = RunAttention(kernels(), shape, {&sequence, 1}, chunk);

        const std::vector<float>& out = outcome.out[0];
        EXPECT_EQ(std::memcmp(out.data(), expected.out[0].data(), bad_floats * sizeof(float)), 0) << "chunk " << chunk;
        if (std::isnan(value)) {
          EXPECT_TRUE(std::all_of(out.begin() + static_cast<ptrdiff_t>(bad_floats), out.end(),
                                  [](float x) { return std::isnan(x); }))
              << "chunk " << chunk << (in_key ? ", key" : ", value");
        }
        if (first.empty()) first = out;
        EXPECT_EQ(Difference(out, first), "") << "chunk " << chunk << ", value " << value;
      }
    }
  }
}

TEST_P(AttentionTest, NonFiniteQueriesReachTheirOwnRowAndNoOther) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Shape shape{1, 3, 64, 32};
  const Sequence clean = MakeSequence(shape, 250, 275, 10);
  const size_t bad = 7 * 3 + 1;  // Row: a query head of a token.
  const Outcome expected = RunAttention(kernels(), shape, {&clean, 1});

  for (const float value : {nan, infinity}) {
    Sequence sequence = clean;
    sequence.q[bad * shape.head_dim + 5] = value;
    for (const uint32_t chunk : {1u, 7u, kWhole}) {
      const Outcome outcome = RunAttention(kernels(), shape, {&sequence, 1}, chunk);

      for (size_t i = 0; i < outcome.out[0].size(); ++i) {
        const float x = outcome.out[0][i];
        // Scores of both infinities: the larger is infinite, and infinity less infinity is NaN.
        ASSERT_TRUE(i / shape.head_dim == bad ? std::isnan(x) : SameBits(x, expected.out[0][i])) << "at " << i;
      }
    }
  }
}

TEST_P(AttentionTest, OneTokenIsItsOwnValueForAnyNumberOfWorkers) {
  const Shape shape{1, 2, 96, 16};
  const Sequence sequence = MakeSequence(shape, 0, 1, 12);
  const Outcome expected = RunAttention(Generic(), shape, {&sequence, 1});

  for (const uint32_t num_workers : {1u, 2u, 7u}) {
    const Outcome outcome = RunAttention(kernels(), shape, {&sequence, 1}, kWhole, num_workers);

    EXPECT_EQ(Difference(outcome.out[0], expected.out[0]), "") << "workers " << num_workers;
    for (uint32_t i = 0; i < shape.q_floats(); ++i) {  // Its weight is 1 but for rounding, and divides out.
      ASSERT_NEAR(outcome.out[0][i], Stored(sequence.v[i % shape.head_dim], KvType::kF16), 1e-6) << "at " << i;
    }
  }
}

TEST_P(AttentionTest, CountsExactlyTheCausalProducts) {
  const Shape shape{2, 3, 64, 16};
  const std::vector<Sequence> sequences = {MakeSequence(shape, 500, 520, 1), MakeSequence(shape, 0, 40, 2),
                                           MakeSequence(shape, 300, 301, 3)};
  uint64_t expected = 0;
  for (const Sequence& sequence : sequences) {
    for (uint64_t position = sequence.first_query; position < sequence.end; ++position) {
      expected += (position + 1) * shape.num_heads();
    }
  }

  for (const uint32_t num_workers : {1u, 3u}) {
    for (const uint32_t chunk : {3u, kWhole}) {
      EXPECT_EQ(RunAttention(kernels(), shape, sequences, chunk, num_workers).num_products, expected)
          << "chunk " << chunk << ", workers " << num_workers;
    }
  }
}

TEST_P(AttentionTest, AnEmptyBatchIsNoWork) {
  AttentionPlan plan;
  ThreadPool pool(2);
  const AttentionArgs args{};

  ASSERT_TRUE(plan.Build(kernels(), {}, {}, {1, 1, 64}, 2, HeapAllocator()).ok());

  KvView view;
  view.num_kv_heads = 1;
  view.head_dim = 64;
  view.block_size = 16;
  pool.Run([&](Worker& worker) {
    AttentionArgs empty = args;
    empty.kv = view;
    empty.num_heads = 1;
    EXPECT_EQ(plan.Run(empty, worker), 0u);
  });
}

// One plan serves all layers of a step, with nothing but a barrier between them.
TEST_P(AttentionTest, ManyLayersShareAPlan) {
  constexpr uint32_t kLayers = 40;
  const Shape shape{2, 3, 64, 64};
  const std::vector<Sequence> sequences = {MakeSequence(shape, 1100, 1101, 1), MakeSequence(shape, 260, 280, 2)};
  const Outcome expected = RunAttention(kernels(), shape, sequences);
  PagedCache cache(shape, sequences, kNanByte);
  std::vector<SequenceRows> rows;
  std::vector<float> q;
  for (size_t s = 0; s < sequences.size(); ++s) {
    cache.Store(kernels(), sequences[s], s, 0, sequences[s].end);
    rows.push_back({static_cast<uint32_t>(q.size() / shape.q_floats()), sequences[s].num_queries(),
                    sequences[s].first_query, cache.table(s)});
    q.insert(q.end(), sequences[s].q.begin(), sequences[s].q.end());
  }
  std::vector<std::vector<float>> out(kLayers, std::vector<float>(q.size()));
  ThreadPool pool(3);
  AttentionPlan plan;

  for (int step = 0; step < (&kernels() == &Generic() ? 1 : 5); ++step) {
    ASSERT_TRUE(
        plan.Build(kernels(), rows, {}, {shape.num_heads(), shape.num_kv_heads, shape.head_dim}, 3, HeapAllocator())
            .ok());
    pool.Run([&](Worker& worker) {
      const uint32_t layers = &kernels() == &Generic() ? 3 : kLayers;
      for (uint32_t layer = 0; layer < layers; ++layer) {
        plan.Run({q.data(), shape.q_floats(), out[layer].data(), shape.q_floats(), cache.view(), 0, shape.num_heads(),
                  1.0f / std::sqrt(static_cast<float>(shape.head_dim))},
                 worker);
        worker.Barrier();
      }
    });
  }

  std::vector<float> joined = expected.out[0];
  joined.insert(joined.end(), expected.out[1].begin(), expected.out[1].end());
  for (uint32_t layer = 0; layer < (&kernels() == &Generic() ? 3 : kLayers); ++layer) {
    EXPECT_EQ(Difference(out[layer], joined), "") << "layer " << layer;
  }
}

TEST_P(AttentionTest, StoredRowsComeBackAsTheCodecRoundsThem) {
  for (const KvType k_type : {KvType::kF32, KvType::kF16}) {
    const KvType v_type = k_type == KvType::kF32 ? KvType::kF16 : KvType::kF32;
    const Shape shape{3, 1, 48, 32, k_type, v_type};
    const Sequence sequence = MakeSequence(shape, 0, 40, 11);
    PagedCache cache(shape, {&sequence, 1}, kNanByte);
    std::vector<float> k(shape.kv_floats()), v(shape.kv_floats());

    cache.Store(kernels(), sequence, 0, 0, 40);

    for (uint32_t t = 0; t < 40; ++t) {
      kernels().load_kv(cache.view(), 0, cache.table(0)[t / 32], t % 32, k.data(), v.data());
      for (uint32_t i = 0; i < shape.kv_floats(); ++i) {
        ASSERT_EQ(k[i], Stored(sequence.k[t * shape.kv_floats() + i], k_type)) << "token " << t << ", K " << i;
        ASSERT_EQ(v[i], Stored(sequence.v[t * shape.kv_floats() + i], v_type)) << "token " << t << ", V " << i;
      }
    }
  }
}

}  // namespace
}  // namespace kvern
