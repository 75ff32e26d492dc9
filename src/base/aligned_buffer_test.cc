#include "base/aligned_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace kvern {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(HeapAllocatorTest, GivesAlignedZeroedBytes) {
  Result<AlignedBuffer> buffer = HeapAllocator().Allocate(1000);

  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size(), 1000u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
  EXPECT_THAT(buffer->bytes(), Each(0));
}

TEST(HeapAllocatorTest, NoBytesGiveAnEmptyBuffer) {
  Result<AlignedBuffer> buffer = HeapAllocator().Allocate(0);

  ASSERT_TRUE(buffer.ok());
  EXPECT_TRUE(buffer->bytes().empty());
}

TEST(HeapAllocatorTest, MoreThanThereIsSaysHowMuchWasAskedFor) {
  const Result<AlignedBuffer> buffer = HeapAllocator().Allocate(SIZE_MAX);

  EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(buffer.status().message(), HasSubstr(std::to_string(SIZE_MAX)));
}

TEST(AlignedBufferTest, MovingHandsTheBytesOver) {
  AlignedBuffer first = HeapAllocator().Allocate(64).value();
  first.as<uint32_t>()[3] = 42;

  AlignedBuffer second = std::move(first);

  EXPECT_EQ(second.as<uint32_t>()[3], 42u);
  EXPECT_EQ(second.size(), 64u);
}

}  // namespace
}  // namespace kvern
