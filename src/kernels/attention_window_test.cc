// Attention under a window, with and without pinned tokens, against attention without either.
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
#include "kernels/attention.h"
#include "kernels/dispatch.h"
#include "tensor/half.h"

namespace kvern {
namespace {

constexpr uint32_t kWhole = UINT32_MAX;  // As a chunk: all rows of a sequence at once.
constexpr uint8_t kNanByte = 0xff;       // As every byte of an f16 or f32 it makes a NaN;
constexpr uint8_t kFiniteByte = 0x3c;    // this one makes a number of about 1 or 0.01.
constexpr BlockIndex kNoBlock = UINT32_MAX;

struct Shape {
  uint32_t num_kv_heads = 1;
  uint32_t group_size = 3;
  uint32_t head_dim = 64;
  uint32_t block_size = 32;
  KvType k_type = KvType::kF16;
  KvType v_type = KvType::kF16;

  uint32_t num_heads() const { return num_kv_heads * group_size; }
  uint32_t q_floats() const { return num_heads() * head_dim; }
  uint32_t kv_floats() const { return num_kv_heads * head_dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

// A span that owns its pinned ranges.
struct Span {
  uint32_t window = 0;
  std::vector<PositionRange> pinned = {};

  AttentionSpan view() const { return {window, pinned}; }
  bool IsPinned(uint64_t t) const {
    return std::any_of(pinned.begin(), pinned.end(), [t](PositionRange r) { return r.begin <= t && t < r.end; });
  }
  // The definition, slot by slot.
  bool Sees(uint64_t position, uint64_t t) const {
    return t <= position && (window == 0 || t + window > position || IsPinned(t));
  }
  std::string ToString() const {
    std::string text = "window " + std::to_string(window);
    for (PositionRange r : pinned) text += ", [" + std::to_string(r.begin) + ", " + std::to_string(r.end) + ")";
    return text;
  }
};

std::vector<Span> AllSpans() {
  std::vector<Span> spans;
  for (const uint32_t window : {1u, 15u, 16u, 17u, 255u, 256u, 257u, 600u}) {
    for (const std::vector<PositionRange>& pinned :
         {std::vector<PositionRange>{}, {{0, 4}}, {{0, 16}}, {{0, 4}, {100, 131}}}) {
      spans.push_back({window, pinned});
    }
  }
  return spans;
}

// Tokens [0, first_query) of a sequence are in the cache; attention is computed for [first_query, end). Tokens from
// first_query - far_tokens on may stand further back than they are numbered, by `shift` positions.
struct Sequence {
  uint32_t first_query, end;
  std::vector<float> q, q_pinned;  // [end - first_query][q_floats]
  std::vector<float> k, v;         // [end][kv_floats]
  uint32_t far_tokens = 0;
  uint32_t shift = 0;

  uint32_t num_queries() const { return end - first_query; }
  uint32_t PositionOf(uint32_t token) const { return token + (token + far_tokens >= first_query ? shift : 0); }
};

Sequence MakeSequence(const Shape& shape, const Span& span, uint32_t first_query, uint32_t end, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Sequence sequence{first_query, end, {}, {}, {}, {}};
  sequence.q.resize(size_t{end - first_query} * shape.q_floats());
  sequence.k.resize(size_t{end} * shape.kv_floats());
  sequence.v.resize(sequence.k.size());
  for (float& x : sequence.q) x = 1.5f * normal(random);
  for (float& x : sequence.k) x = normal(random);
  for (float& x : sequence.v) x = normal(random);
  sequence.q_pinned = sequence.q;
  const uint64_t last_alike = span.view().PinnedQueryPosition();
  for (size_t i = 0; i < sequence.q_pinned.size(); ++i) {
    if (first_query + i / shape.q_floats() > last_alike) sequence.q_pinned[i] = 1.5f * normal(random);
  }
  return sequence;
}

// K and V of one step's sequences, as they may stand when a window has passed: only the slots that a row of this step
// sees are there. All others hold `fill`, and blocks without such a slot are not in the table.
class StepCache {
 public:
  StepCache(const KernelTable& kernels, const Shape& shape, const Span& span, uint8_t fill)
      : kernels_(kernels), shape_(shape), span_(span), fill_(fill) {
    view_.block_size = shape.block_size;
    view_.num_kv_heads = shape.num_kv_heads;
    view_.head_dim = shape.head_dim;
    view_.k_type = shape.k_type;
    view_.v_type = shape.v_type;
    view_.layer_stride = view_.LayOutHeads();
    view_.block_stride = view_.layer_stride;
  }

  void Add(const Sequence& sequence, uint32_t begin, uint32_t end) {
    std::vector<char> is_seen(sequence.end);
    for (uint32_t row = begin; row < end; ++row) {
      const uint32_t first = span_.window == 0 || row < span_.window ? 0 : row - span_.window + 1;
      std::fill(is_seen.begin() + first, is_seen.begin() + row + 1, 1);
      for (PositionRange r : span_.pinned) {
        for (uint32_t t = r.begin; t < std::min(r.end, row + 1); ++t) is_seen[t] = 1;
      }
    }
    std::vector<BlockIndex>& table = tables_.emplace_back();
    table.resize(sequence.PositionOf(end - 1) / shape_.block_size + 1, kNoBlock);
    for (uint32_t t = 0; t < end; ++t) {
      BlockIndex& block = table[sequence.PositionOf(t) / shape_.block_size];
      if (is_seen[t] != 0 && block == kNoBlock) block = num_blocks_++ ^ 1;  // Not in order.
    }
    sequences_.push_back({&sequence, std::move(is_seen)});
  }

  void Fill() {
    memory_ = HeapAllocator().Allocate((num_blocks_ + 1) * view_.block_stride).value();
    std::memset(memory_.data(), fill_, memory_.size());
    view_.base = memory_.data();
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const auto& [sequence, is_seen] = sequences_[s];
      for (uint32_t t = 0; t < is_seen.size(); ++t) {
        if (is_seen[t] == 0) continue;
        const uint32_t position = sequence->PositionOf(t);
        kernels_.store_kv(view_, 0, tables_[s][position / shape_.block_size], position % shape_.block_size,
                          sequence->k.data() + size_t{t} * shape_.kv_floats(),
                          sequence->v.data() + size_t{t} * shape_.kv_floats());
      }
    }
  }

  const KvView& view() const { return view_; }
  std::span<const BlockIndex> table(size_t i) const { return tables_[i]; }

 private:
  struct Seen {
    const Sequence* sequence;
    std::vector<char> slots;
  };
  const KernelTable& kernels_;
  const Shape& shape_;
  const Span& span_;
  uint8_t fill_;
  KvView view_;
  AlignedBuffer memory_;
  BlockIndex num_blocks_ = 0;
  std::vector<std::vector<BlockIndex>> tables_;
  std::vector<Seen> sequences_;
};

struct Outcome {
  std::vector<std::vector<float>> out;  // Per sequence [num_queries][q_floats].
  uint64_t num_products = 0;
};

struct Cut {
  uint32_t chunk = kWhole;
  uint32_t num_workers = 1;
  uint8_t fill = kNanByte;
  std::string ToString() const {
    return ", chunk " + (chunk == kWhole ? "whole" : std::to_string(chunk)) + ", workers " +
           std::to_string(num_workers) + (fill == kNanByte ? ", over NaN" : "");
  }
};

// All sequences as one batch, a chunk of each per step.
Outcome RunAttention(const KernelTable& kernels, const Shape& shape, const Span& span,
                     std::span<const Sequence> sequences, const Cut& cut) {
  ThreadPool pool(cut.num_workers);
  AttentionPlan plan;
  Outcome outcome;
  std::vector<uint32_t> done(sequences.size());
  for (const Sequence& sequence : sequences) outcome.out.emplace_back(sequence.q.size());
  for (;;) {
    StepCache cache(kernels, shape, span, cut.fill);
    std::vector<size_t> running;
    std::vector<SequenceRows> rows;
    std::vector<float> q, q_pinned;
    for (size_t s = 0; s < sequences.size(); ++s) {
      const Sequence& sequence = sequences[s];
      const uint32_t count = std::min(cut.chunk, sequence.num_queries() - done[s]);
      if (count == 0) continue;
      const uint32_t token = sequence.first_query + done[s];
      cache.Add(sequence, token, token + count);
      running.push_back(s);
      rows.push_back({static_cast<uint32_t>(q.size() / shape.q_floats()), count, sequence.PositionOf(token)});
      const auto begin = static_cast<ptrdiff_t>(size_t{done[s]} * shape.q_floats());
      const auto end = begin + static_cast<ptrdiff_t>(size_t{count} * shape.q_floats());
      q.insert(q.end(), sequence.q.begin() + begin, sequence.q.begin() + end);
      q_pinned.insert(q_pinned.end(), sequence.q_pinned.begin() + begin, sequence.q_pinned.begin() + end);
    }
    if (q.empty()) return outcome;
    cache.Fill();
    for (size_t i = 0; i < rows.size(); ++i) rows[i].block_tables[0] = cache.table(i);

    std::vector<float> out(q.size(), -1.0f);
    const AttentionArgs args{.q = q.data(),
                             .q_stride = shape.q_floats(),
                             .out = out.data(),
                             .out_stride = shape.q_floats(),
                             .kv = cache.view(),
                             .layer = 0,
                             .num_heads = shape.num_heads(),
                             .scale = shape.scale(),
                             .q_pinned = span.pinned.empty() ? nullptr : q_pinned.data()};
    const AttentionShape plan_shape{shape.num_heads(), shape.num_kv_heads, shape.head_dim, 0, span.view()};
    EXPECT_TRUE(plan.Build(kernels, rows, {}, plan_shape, cut.num_workers, HeapAllocator()).ok());
    std::atomic<uint64_t> num_products{0};
    pool.Run([&](Worker& worker) { num_products += plan.Run(args, worker); });
    outcome.num_products += num_products;
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t s = running[i];
      std::copy_n(out.begin() + static_cast<ptrdiff_t>(size_t{rows[i].first_row} * shape.q_floats()),
                  size_t{rows[i].num_rows} * shape.q_floats(),
                  outcome.out[s].begin() + static_cast<ptrdiff_t>(size_t{done[s]} * shape.q_floats()));
      done[s] += rows[i].num_rows;
    }
  }
}

float Stored(float x, KvType type) { return type == KvType::kF16 ? F16ToF32(F32ToF16(x)) : x; }

// What a row must be, by attention of generic code that sees all slots up to the row: the mask is in the keys. Every
// head is [q | q_pinned | 1, 0 ...] and every key [k | 0 | 0 ...], [0 | k | 0 ...] where it is pinned, or, where it is
// hidden, [0 | 0 | -2^100, 0 ...]: a score that weighs +0 beside any other, and nothing in a split that has no other.
std::vector<float> MaskedRow(const Shape& shape, const Span& span, const Sequence& sequence, uint32_t token) {
  const uint32_t dim = shape.head_dim, wide = 2 * dim + 16;
  const Shape wide_shape{shape.num_kv_heads, shape.group_size, wide, 256, KvType::kF32, KvType::kF32};
  Sequence row{token, token + 1, {}, {}, {}, {}};
  row.q.resize(wide_shape.q_floats());
  for (uint32_t head = 0; head < shape.num_heads(); ++head) {
    const size_t from = size_t{token - sequence.first_query} * shape.q_floats() + head * dim;
    std::copy_n(sequence.q.begin() + static_cast<ptrdiff_t>(from), dim, row.q.begin() + head * wide);
    std::copy_n(sequence.q_pinned.begin() + static_cast<ptrdiff_t>(from), dim, row.q.begin() + head * wide + dim);
    row.q[head * wide + 2 * dim] = 1.0f;
  }
  row.k.resize(size_t{token + 1} * wide_shape.kv_floats());
  row.v.resize(row.k.size());
  for (uint32_t t = 0; t <= token; ++t) {
    for (uint32_t head = 0; head < shape.num_kv_heads; ++head) {
      const size_t from = size_t{t} * shape.kv_floats() + head * dim;
      const size_t to = size_t{t} * wide_shape.kv_floats() + head * wide;
      if (!span.Sees(token, t)) {
        row.k[to + 2 * dim] = -0x1p100f;
        continue;
      }
      for (uint32_t d = 0; d < dim; ++d) {
        row.k[to + d + (span.IsPinned(t) ? dim : 0)] = Stored(sequence.k[from + d], shape.k_type);
        row.v[to + d] = Stored(sequence.v[from + d], shape.v_type);
      }
    }
  }

  const KernelTable& generic = *RunnableTargets().front();
  const Span all;
  StepCache cache(generic, wide_shape, all, kNanByte);
  cache.Add(row, token, token + 1);
  cache.Fill();
  const SequenceRows rows{0, 1, token, {cache.table(0)}};
  std::vector<float> wide_out(row.q.size());
  AttentionPlan plan;
  ThreadPool pool(1);
  EXPECT_TRUE(
      plan.Build(generic, {&rows, 1}, {}, {shape.num_heads(), shape.num_kv_heads, wide}, 1, HeapAllocator()).ok());
  pool.Run([&](Worker& worker) {
    plan.Run({row.q.data(), wide_shape.q_floats(), wide_out.data(), wide_shape.q_floats(), cache.view(), 0,
              shape.num_heads(), shape.scale()},
             worker);
  });
  std::vector<float> out;
  for (uint32_t head = 0; head < shape.num_heads(); ++head) {
    const auto begin = wide_out.begin() + head * wide;
    out.insert(out.end(), begin, begin + dim);
  }
  return out;
}

std::vector<float> MaskedRows(const Shape& shape, const Span& span, const Sequence& sequence) {
  std::vector<float> out;
  for (uint32_t token = sequence.first_query; token < sequence.end; ++token) {
    const std::vector<float> row = MaskedRow(shape, span, sequence, token);
    out.insert(out.end(), row.begin(), row.end());
  }
  return out;
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0 || (std::isnan(a) && std::isnan(b)); }

// The first difference in words, or "" where all bits are equal (any NaN equals any NaN).
std::string Difference(const Shape& shape, const std::vector<float>& actual, const std::vector<float>& expected) {
  if (actual.size() != expected.size()) return "different sizes";
  for (size_t i = 0; i < actual.size(); ++i) {
    if (SameBits(actual[i], expected[i])) continue;
    return "row " + std::to_string(i / shape.q_floats()) + ", value " + std::to_string(i % shape.q_floats()) + ": " +
           std::to_string(actual[i]) + " != " + std::to_string(expected[i]);
  }
  return "";
}

const KernelTable& Generic() { return *RunnableTargets().front(); }

TEST(AttentionSpanTest, SlotsSeenCountsWhatTheDefinitionSelects) {
  for (const Span& span : AllSpans()) {
    for (const uint32_t position : {0u, 3u, 4u, 15u, 16u, 120u, 255u, 256u, 300u, 399u, 700u, 3000u}) {
      for (const auto& [begin, end] : {std::pair{0u, 4000u}, {0u, 256u}, {256u, 512u}, {2u, 110u}, {2900u, 2990u}}) {
        uint64_t expected = 0;
        for (uint64_t t = begin; t < end; ++t) expected += span.Sees(position, t) ? 1 : 0;

        EXPECT_EQ(span.view().SlotsSeen(position, begin, end), expected)
            << span.ToString() << ", position " << position << ", slots " << begin << " to " << end;
      }
    }
  }
}

TEST(AttentionSpanTest, WindowsOfAnySizeDoNotOverflow) {
  const std::vector<PositionRange> pinned = {{0, 4}};
  const AttentionSpan span{UINT32_MAX, pinned};

  EXPECT_EQ(span.PinnedQueryPosition(), UINT32_MAX);
  EXPECT_EQ(span.WindowBegin(UINT32_MAX), 1u);
  EXPECT_EQ(span.SlotsSeen(UINT32_MAX), uint64_t{UINT32_MAX} + 1);
}

// Every span in every cut of all targets. The batch has sequences in prefill and in decode: at their beginning, around
// the borders of splits, where the queries of pinned slots part from the others, and far behind all of this.
TEST(AttentionWindowTest, EveryCutOfEveryTargetEqualsMaskedFullAttention) {
  const Shape shape;
  const std::vector<std::pair<uint32_t, uint32_t>> ranges = {{0, 40},    {250, 258}, {370, 405},  {512, 513},
                                                             {597, 606}, {724, 745}, {2999, 3001}};
  uint32_t turn = 0;
  for (const Span& span : AllSpans()) {
    std::vector<Sequence> batch;
    std::vector<std::vector<float>> expected;
    for (const auto& [begin, end] : ranges) {
      batch.push_back(MakeSequence(shape, span, begin, end, begin));
      expected.push_back(MaskedRows(shape, span, batch.back()));
    }
    for (const KernelTable* target : RunnableTargets()) {
      for (const uint32_t chunk : {1u, 3u, 17u, kWhole}) {
        if (target == &Generic() && chunk % 2 == 0) continue;
        const Cut cut{chunk, 1 + turn % 3, turn % 2 == 0 ? kNanByte : kFiniteByte};
        ++turn;

        const Outcome outcome = RunAttention(*target, shape, span, batch, cut);

        for (size_t s = 0; s < batch.size(); ++s) {
          EXPECT_EQ(Difference(shape, outcome.out[s], expected[s]), "")
              << target->name << ", " << span.ToString() << cut.ToString() << ", rows from " << ranges[s].first;
        }
        ASSERT_FALSE(HasFailure()) << "the first difference is enough";
      }
    }
  }
}

TEST(AttentionWindowTest, EveryHeadSizeGroupTypeAndBlockSizeEqualsMaskedFullAttention) {
  const Span span{300, {{0, 4}, {100, 131}}};
  for (const Shape& shape :
       {Shape{1, 1, 64, 16}, Shape{2, 3, 64, 48, KvType::kF32, KvType::kF16}, Shape{1, 4, 80, 64},
        Shape{2, 4, 128, 256, KvType::kF16, KvType::kF32}, Shape{1, 4, 256, 32}, Shape{1, 9, 16, 512}}) {
    std::vector<Sequence> batch;
    std::vector<std::vector<float>> expected;
    for (const auto& [begin, end] : {std::pair{425u, 445u}, {640u, 643u}, {980u, 981u}}) {
      batch.push_back(MakeSequence(shape, span, begin, end, begin));
      expected.push_back(MaskedRows(shape, span, batch.back()));
    }
    for (const KernelTable* target : RunnableTargets()) {
      for (const Cut& cut : {Cut{1, 2, kNanByte}, Cut{kWhole, 1, kFiniteByte}, Cut{kWhole, 2, kNanByte}}) {
        const Outcome outcome = RunAttention(*target, shape, span, batch, cut);

        for (size_t s = 0; s < batch.size(); ++s) {
          EXPECT_EQ(Difference(shape, outcome.out[s], expected[s]), "")
              << target->name << ", head_dim " << shape.head_dim << cut.ToString() << ", sequence " << s;
        }
      }
    }
  }
}

// Long enough for several tiles, whose rows begin and end within different splits.
TEST(AttentionWindowTest, LongPrefillEqualsDecode) {
  const Shape shape{1, 3, 64, 64};
  for (const Span& span : {Span{257, {}}, Span{512, {{0, 4}}}, Span{100, {{0, 4}, {100, 400}}}}) {
    const std::vector<Sequence> sequences = {MakeSequence(shape, span, 0, 1100, 1)};
    for (const KernelTable* target : RunnableTargets()) {
      if (target == &Generic()) continue;
      const Outcome expected = RunAttention(*target, shape, span, sequences, {1, 1, kFiniteByte});
      for (const uint32_t chunk : {16u, 100u, 512u, kWhole}) {
        const Cut cut{chunk, 2, chunk == 100 ? kNanByte : kFiniteByte};

        const Outcome outcome = RunAttention(*target, shape, span, sequences, cut);

        EXPECT_EQ(Difference(shape, outcome.out[0], expected.out[0]), "")
            << target->name << ", " << span.ToString() << cut.ToString();
        EXPECT_EQ(outcome.num_products, expected.num_products);
      }
    }
  }
}

// What is not seen may hold anything in every codec: codes, scales, none of it may show.
TEST(AttentionWindowTest, EveryCodecGivesTheSameBitsInEveryCut) {
  constexpr KvType kPairs[][2] = {{KvType::kI8, KvType::kI4},        {KvType::kI4, KvType::kI8},
                                  {KvType::kBF16, KvType::kF8E5M2},  {KvType::kF8E4M3, KvType::kBF16},
                                  {KvType::kI4Head, KvType::kF16},   {KvType::kF32, KvType::kI4Head},
                                  {KvType::kF8E5M2, KvType::kF8E4M3}};
  for (const auto& [k_type, v_type] : kPairs) {
    const Shape shape{2, 3, 64, 32, k_type, v_type};
    for (const Span& span : {Span{40, {}}, Span{257, {{0, 4}}}, Span{100, {{0, 4}, {100, 131}}}}) {
      const std::vector<Sequence> batch = {MakeSequence(shape, span, 300, 322, 1),
                                           MakeSequence(shape, span, 620, 621, 2)};
      const Outcome expected = RunAttention(Generic(), shape, span, batch, {1, 1, kFiniteByte});
      for (const KernelTable* target : RunnableTargets()) {
        for (const Cut& cut : {Cut{1, 2, kNanByte}, Cut{kWhole, 1, kFiniteByte}, Cut{kWhole, 2, kNanByte}}) {
          const Outcome outcome = RunAttention(*target, shape, span, batch, cut);

          for (size_t s = 0; s < batch.size(); ++s) {
            EXPECT_EQ(Difference(shape, outcome.out[s], expected.out[s]), "")
                << target->name << ", K " << static_cast<int>(k_type) << ", V " << static_cast<int>(v_type) << ", "
                << span.ToString() << cut.ToString() << ", sequence " << s;
          }
        }
      }
    }
  }
}

TEST(AttentionWindowTest, AWindowLargerThanTheContextIsNone) {
  const Shape shape;
  for (const KernelTable* target : RunnableTargets()) {
    for (const Span& span : {Span{3003, {}}, Span{UINT32_MAX, {}}, Span{4000, {{0, 4}}}, Span{UINT32_MAX, {{0, 4}}}}) {
      const std::vector<Sequence> batch = {MakeSequence(shape, span, 3000, 3003, 1),
                                           MakeSequence(shape, span, 240, 280, 2)};
      for (const uint32_t chunk : {1u, kWhole}) {
        const Outcome expected = RunAttention(*target, shape, {}, batch, {chunk, 2});

        const Outcome outcome = RunAttention(*target, shape, span, batch, {chunk, 2});

        for (size_t s = 0; s < batch.size(); ++s) {
          EXPECT_EQ(Difference(shape, outcome.out[s], expected.out[s]), "") << target->name << ", " << span.ToString();
        }
        EXPECT_EQ(outcome.num_products, expected.num_products);
      }
    }
  }
}

TEST(AttentionWindowTest, CountsExactlyTheProductsThatTheMaskSelects) {
  const Shape shape{2, 3, 16, 32};
  for (const Span& span : AllSpans()) {
    const std::vector<Sequence> batch = {MakeSequence(shape, span, 0, 50, 1), MakeSequence(shape, span, 370, 410, 2),
                                         MakeSequence(shape, span, 1290, 1300, 3)};
    uint64_t expected = 0;
    for (const Sequence& sequence : batch) {
      for (uint32_t p = sequence.first_query; p < sequence.end; ++p) {
        for (uint32_t t = 0; t <= p; ++t) expected += span.Sees(p, t) ? shape.num_heads() : 0;
      }
    }
    for (const uint32_t chunk : {1u, 7u, kWhole}) {
      EXPECT_EQ(RunAttention(*RunnableTargets().back(), shape, span, batch, {chunk, 2}).num_products, expected)
          << span.ToString() << ", chunk " << chunk;
    }
  }
}

// The rows of a batch that see a value which is not finite, and no others, change: also those in one tile with them.
TEST(AttentionWindowTest, NonFiniteKeysAndValuesLeaveWithTheWindow) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Shape shape;
  const uint32_t bad = 305;
  for (const Span& span : {Span{20, {}}, Span{20, {{0, 4}}}, Span{20, {{300, 305}}}}) {
    const Sequence clean = MakeSequence(shape, span, 290, 350, 1);
    for (const KernelTable* target : RunnableTargets()) {
      const Outcome expected = RunAttention(*target, shape, span, {&clean, 1}, {});
      for (const float value : {nan, infinity}) {
        for (const bool in_key : {true, false}) {
          Sequence sequence = clean;
          (in_key ? sequence.k : sequence.v)[bad * shape.kv_floats() + 5] = value;
          for (const uint32_t chunk : {1u, 3u, kWhole}) {
            const Outcome outcome = RunAttention(*target, shape, span, {&sequence, 1}, {chunk, 1});

            for (size_t i = 0; i < clean.q.size(); ++i) {
              const uint32_t position = 290 + static_cast<uint32_t>(i / shape.q_floats());
              const float x = outcome.out[0][i];
              const bool is_bad = span.Sees(position, bad) && (in_key || i % shape.head_dim == 5);
              if (is_bad && in_key && std::isinf(value)) continue;  // A score of -inf, or +inf, by the query's sign.
              ASSERT_TRUE(is_bad ? !std::isfinite(x) : SameBits(x, expected.out[0][i]))
                  << target->name << ", " << span.ToString() << ", position " << position << ", chunk " << chunk;
            }
          }
        }
      }
    }
  }
}

// The same rows, keys and values two billion positions later, by whole splits: the same bits, and since nothing that is
// stored or visited grows with the position, as soon.
TEST(AttentionWindowTest, FarPositionsCostNoMoreThanNearOnes) {
  const Shape shape{1, 3, 64, 4096};
  const Span span{600, {{0, 4}}};
  const std::vector<Sequence> near = {MakeSequence(shape, span, 1700, 1705, 1),
                                      MakeSequence(shape, span, 1750, 1790, 2)};
  std::vector<Sequence> far = near;
  for (Sequence& sequence : far) {
    sequence.far_tokens = 700;
    sequence.shift = 1u << 31;
  }
  for (const KernelTable* target : RunnableTargets()) {
    const Outcome expected = RunAttention(*target, shape, span, near, {});

    const Outcome outcome = RunAttention(*target, shape, span, far, {kWhole, 2});

    for (size_t s = 0; s < far.size(); ++s) {
      EXPECT_EQ(Difference(shape, outcome.out[s], expected.out[s]), "") << target->name << ", sequence " << s;
    }
    EXPECT_EQ(outcome.num_products, expected.num_products);
  }
}

}  // namespace
}  // namespace kvern
