// LRU: the block unused for longest leaves first.
#include "kvcache/policies/block_lists.h"
#include "kvern/eviction_policy.h"

namespace kvern {
namespace {

class Lru final : public EvictionPolicy {
 public:
  explicit Lru(uint32_t num_blocks) : lists_(num_blocks, kNumLists) {}

  std::string_view Name() const override { return "lru"; }
  void OnEvictable(BlockIndex block, const BlockInfo& info) override {
    lists_.PushBack(info.leaves_first ? kFirst : kUsed, block);
  }
  void OnReused(BlockIndex block) override { lists_.Remove(block); }
  void OnRemoved(BlockIndex block) override { lists_.Remove(block); }
  void PickVictims(size_t count, std::vector<BlockIndex>& victims) override {
    count = lists_.TakeFrom(kFirst, count, victims);
    lists_.TakeFrom(kUsed, count, victims);
  }

 private:
  enum : uint8_t { kFirst, kUsed, kNumLists };
  BlockLists lists_;
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLruPolicy(uint32_t num_blocks) { return std::make_unique<Lru>(num_blocks); }

}  // namespace kvern
