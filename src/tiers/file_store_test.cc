#include "tiers/file_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace kvern {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<uint8_t>;

// Bytes in memory that may fail.
class FakeFile : public ScratchFile {
 public:
  Status Write(uint64_t offset, std::span<const uint8_t> bytes) override {
    if (is_full) return Status::ResourceExhausted("full");
    if (data.size() < offset + bytes.size()) data.resize(offset + bytes.size());
    std::memcpy(&data[offset], bytes.data(), bytes.size());
    return Status::Ok();
  }
  Status Read(uint64_t offset, std::span<uint8_t> bytes) override {
    if (offset + bytes.size() > data.size()) return Status::IoError("short");
    std::memcpy(bytes.data(), &data[offset], bytes.size());
    return Status::Ok();
  }
  Bytes data;
  bool is_full = false;
};

struct Store {
  explicit Store(uint64_t limit) {
    auto made = std::make_unique<FakeFile>();
    file = made.get();
    store = std::make_unique<FileStore>(std::move(made), limit);
  }
  FakeFile* file;
  std::unique_ptr<FileStore> store;
};

TEST(FileStoreTest, RandomRecordsAgreeWithAMap) {
  Store s(1 << 20);
  std::map<uint64_t, Bytes> naive;
  std::mt19937 random(5);
  uint64_t next_id = 0, used = 0;

  for (int step = 0; step < 3000; ++step) {
    if (random() % 2 == 0 && naive.size() < 40) {
      Bytes bytes(random() % 2 == 0 ? 1000 : 3);
      for (uint8_t& b : bytes) b = static_cast<uint8_t>(random());
      ASSERT_TRUE(s.store->Put(next_id, bytes).ok());
      used += bytes.size();
      naive[next_id++] = bytes;
    } else if (!naive.empty()) {
      const auto it = std::next(naive.begin(), static_cast<long>(random() % naive.size()));
      Bytes bytes(it->second.size());
      ASSERT_TRUE(s.store->Get(it->first, bytes).ok());
      ASSERT_EQ(bytes, it->second);
      used -= bytes.size();
      s.store->Erase(it->first);
      ASSERT_EQ(s.store->Get(it->first, bytes).code(), StatusCode::kNotFound);
      naive.erase(it);
    }
    ASSERT_EQ(s.store->used_bytes(), used);
  }
  EXPECT_LE(s.file->data.size(), 40 * 1003u);  // Places are used again.
}

TEST(FileStoreTest, TheLimitIsKeptAndSaid) {
  Store s(25);

  ASSERT_TRUE(s.store->Put(1, Bytes(10)).ok());
  ASSERT_TRUE(s.store->Put(2, Bytes(10)).ok());
  const Status status = s.store->Put(3, Bytes(10));

  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("holds 20 bytes, limit 25"));
  s.store->Erase(1);
  EXPECT_TRUE(s.store->Put(3, Bytes(10)).ok());
}

TEST(FileStoreTest, AFailedWriteKeepsNothing) {
  Store s(1000);
  s.file->is_full = true;

  EXPECT_EQ(s.store->Put(1, Bytes(10)).code(), StatusCode::kResourceExhausted);

  Bytes bytes(10);
  EXPECT_EQ(s.store->Get(1, bytes).code(), StatusCode::kNotFound);
  EXPECT_EQ(s.store->used_bytes(), 0u);
  s.file->is_full = false;
  EXPECT_TRUE(s.store->Put(1, bytes).ok());
}

TEST(FileStoreTest, EveryFlippedBitIsFound) {
  Store s(1000);
  ASSERT_TRUE(s.store->Put(1, Bytes(21, 7)).ok());

  for (size_t bit = 0; bit < 21 * 8; ++bit) {
    s.file->data[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    Bytes bytes(21);
    EXPECT_EQ(s.store->Get(1, bytes).code(), StatusCode::kCorruption) << bit;
    s.file->data[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
  }
}

}  // namespace
}  // namespace kvern
