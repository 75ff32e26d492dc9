// A BlockStore in memory that fails where it is told to: for tests of preempted sequences.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kvern/block_store.h"

namespace kvern {

// Calls from number `first_failing_put` or `first_failing_get` on fail.
class FaultStore : public BlockStore {
 public:
  struct Faults {
    uint64_t first_failing_put = ~uint64_t{0};
    uint64_t first_failing_get = ~uint64_t{0};
  };
  explicit FaultStore(Faults faults) : faults_(faults) {}
  ~FaultStore() override { EXPECT_TRUE(kept_.empty()) << "blocks are left in the store"; }

  Status Put(uint64_t id, std::span<const uint8_t> bytes) override {
    if (num_puts_++ >= faults_.first_failing_put) return Status::ResourceExhausted("the store is full");
    EXPECT_TRUE(kept_.emplace(id, std::vector<uint8_t>(bytes.begin(), bytes.end())).second);
    return Status::Ok();
  }
  Status Get(uint64_t id, std::span<uint8_t> bytes) override {
    std::fill(bytes.begin(), bytes.end(), uint8_t{0xFF});  // A failed read may leave anything.
    if (num_gets_++ >= faults_.first_failing_get) return Status::IoError("the store cannot be read");
    const auto found = kept_.find(id);
    if (found == kept_.end() || found->second.size() != bytes.size()) return Status::NotFound("no such block");
    std::ranges::copy(found->second, bytes.begin());
    return Status::Ok();
  }
  void Erase(uint64_t id) override { kept_.erase(id); }
  uint64_t used_bytes() const override { return 0; }
  uint64_t limit_bytes() const override { return 0; }

 private:
  const Faults faults_;
  uint64_t num_puts_ = 0, num_gets_ = 0;
  std::map<uint64_t, std::vector<uint8_t>> kept_;
};

}  // namespace kvern
