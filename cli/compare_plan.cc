#include "cli/compare_plan.h"

#include <algorithm>
#include <utility>

namespace kvern::cli {
namespace {

constexpr uint32_t kBlockSizes[] = {16, 256, 4096};
constexpr uint64_t kDecodeWork = 6;  // A decoded token against one of a prompt.

CacheOptions WithCodecs(CacheOptions cache, const CodecPair& codecs) {
  cache.k_type = codecs.k;
  cache.v_type = codecs.v;
  return cache;
}

}  // namespace

std::vector<uint32_t> ComparePlan::Depths() const { return {length / 8, length / 4, length / 2, length}; }

uint32_t ComparePlan::ContextTokens(const ModelInfo& model) const {
  const uint32_t longest = std::max(length + num_generated, batch > 0 ? batch_tokens + 2 * batch_steps : 0) + 1;
  return std::min(2 * longest, model.context_tokens);
}

size_t ComparePlan::TextTokens() const {
  return std::max<size_t>({quality_tokens + 1, size_t{length}, size_t{batch} + batch_tokens});
}

Status ComparePlan::Validate(const ModelInfo& model) const {
  if (length < 64 || length > (1u << 20)) {
    return Status::InvalidArgument("--length is " + std::to_string(length) + ", expected 64 to 1048576");
  }
  const uint64_t needed = std::max<uint64_t>(uint64_t{length} + num_generated, batch_tokens + 2 * batch_steps) + 1;
  if (needed <= model.context_tokens) return Status::Ok();
  return Status::InvalidArgument("the rows need a context of " + std::to_string(needed) + " tokens, the model has " +
                                 std::to_string(model.context_tokens) + ": give a smaller --length or --batch-tokens");
}

std::vector<CompareCase> AllCases(const ComparePlan& plan, const CacheOptions& base) {
  std::vector<CompareCase> cases;
  const auto add = [&](std::string name, auto change) {
    cases.push_back({std::move(name), base});
    change(cases.back().cache);
  };
  add("no cache", [](CacheOptions& cache) { cache.is_enabled = false; });
  add("contiguous f32", [](CacheOptions& cache) {
    cache.placement = "contiguous";
    cache.k_type = cache.v_type = KvType::kF32;
  });
  for (const CodecPair& codecs : AllCodecPairs()) {
    add(NameOf(codecs), [&](CacheOptions& cache) { cache = WithCodecs(base, codecs); });
    if (codecs != CodecPair{KvType::kI8, KvType::kI8}) continue;
    cases.push_back({"int8 per tensor", WithCodecs({}, {KvType::kF32, KvType::kF32}), /*is_per_tensor_int8=*/true});
  }
  add("growing", [](CacheOptions& cache) { cache.placement = "growing"; });
  for (const uint32_t block_size : kBlockSizes) {
    add("paged " + std::to_string(block_size), [&](CacheOptions& cache) { cache.block_size = block_size; });
  }
  const std::string window = "window " + std::to_string(plan.WindowTokens());
  add("ring, " + window, [&](CacheOptions& cache) {
    cache.placement = "ring";
    cache.window_tokens = plan.WindowTokens();
  });
  add(window + " + sinks", [&](CacheOptions& cache) {
    cache.window_tokens = plan.WindowTokens();
    cache.num_sinks = kCompareSinks;
  });
  return cases;
}

Result<std::vector<CompareCase>> ChooseCases(std::vector<CompareCase> cases, const std::vector<std::string>& names) {
  if (names.empty()) return cases;
  for (const std::string& name : names) {
    if (std::ranges::find(cases, name, &CompareCase::name) != cases.end()) continue;
    std::string known;
    for (const CompareCase& row : cases) known += (known.empty() ? "" : ", ") + row.name;
    return Status::InvalidArgument("there is no row '" + name + "'; rows are: " + known);
  }
  std::erase_if(cases, [&](const CompareCase& row) { return std::ranges::find(names, row.name) == names.end(); });
  return cases;
}

bool HaveEqualLogits(const CacheOptions& a, const CacheOptions& b) {
  const auto is_same = [](const TokenRange& x, const TokenRange& y) { return x.begin == y.begin && x.end == y.end; };
  return a.k_type == b.k_type && a.v_type == b.v_type && a.window_tokens == b.window_tokens &&
         a.num_sinks == b.num_sinks && std::ranges::equal(a.global_tokens, b.global_tokens, is_same);
}

std::vector<CacheOptions> QualityCandidates(const std::vector<CompareCase>& cases) {
  CacheOptions reference;
  reference.k_type = reference.v_type = KvType::kF32;
  std::vector<CacheOptions> candidates;
  for (const CompareCase& row : cases) {
    if (row.is_per_tensor_int8 || HaveEqualLogits(row.cache, reference)) continue;
    const auto is_equal = [&](const CacheOptions& other) { return HaveEqualLogits(row.cache, other); };
    if (std::ranges::none_of(candidates, is_equal)) candidates.push_back(row.cache);
  }
  return candidates;
}

uint64_t DepthWork(const ComparePlan& plan, const CompareCase& row, uint32_t depth) {
  return depth + plan.GeneratedBy(row) * (row.cache.is_enabled ? kDecodeWork : depth);
}

uint64_t SpeedWork(const ComparePlan& plan, const CompareCase& row) {
  if (row.is_per_tensor_int8) return 0;
  uint64_t work = 0;
  for (const uint32_t depth : plan.Depths()) work += DepthWork(plan, row, depth);
  return work;
}

uint64_t BatchWork(const ComparePlan& plan, const CompareCase& row) {
  if (!row.cache.is_enabled || row.is_per_tensor_int8) return 0;
  return uint64_t{plan.batch} * (plan.batch_tokens + kDecodeWork * plan.batch_steps);
}

}  // namespace kvern::cli
