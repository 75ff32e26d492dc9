#include "platform/huge_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

namespace kvern {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

TEST(HugePageAllocatorTest, LargeBuffersStandOnHugePageBordersAndAreZero) {
  for (size_t num_bytes : {4 * kMiB, 4 * kMiB + 1, 7 * kMiB - 64}) {
    Result<AlignedBuffer> buffer = HugePageAllocator().Allocate(num_bytes);

    ASSERT_TRUE(buffer.ok()) << buffer.status().ToString();
    EXPECT_EQ(buffer->size(), num_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % (2 * kMiB), 0u);
    EXPECT_EQ(buffer->data()[0], 0);
    EXPECT_EQ(std::memcmp(buffer->data(), buffer->data() + 1, num_bytes - 1), 0);
    std::memset(buffer->data(), 0xff, num_bytes);
  }
}

TEST(HugePageAllocatorTest, SmallBuffersAreAlignedAndZero) {
  Result<AlignedBuffer> buffer = HugePageAllocator().Allocate(100);

  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
  EXPECT_THAT(buffer->bytes(), Each(0));
}

TEST(HugePageAllocatorTest, NoBytesGiveAnEmptyBuffer) {
  const Result<AlignedBuffer> buffer = HugePageAllocator().Allocate(0);

  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(buffer->size(), 0u);
}

TEST(HugePageAllocatorTest, MoreThanThereIsSaysHowMuchWasAskedFor) {
  for (size_t num_bytes : {SIZE_MAX, SIZE_MAX - 3 * kMiB, size_t{1} << 60}) {
    const Result<AlignedBuffer> buffer = HugePageAllocator().Allocate(num_bytes);

    EXPECT_EQ(buffer.status().code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(buffer.status().message(), HasSubstr(std::to_string(num_bytes)));
  }
}

TEST(ResidentBytesTest, GrowWithTouchedMemoryAndThePeakStays) {
  const uint64_t before = ResidentBytes();
  if (before == 0) GTEST_SKIP() << "this system does not tell";
  uint64_t with_buffer = 0;
  {
    Result<AlignedBuffer> buffer = HugePageAllocator().Allocate(64 * kMiB);
    ASSERT_TRUE(buffer.ok());
    std::memset(buffer->data(), 1, buffer->size());
    with_buffer = ResidentBytes();
  }

  EXPECT_GE(with_buffer, before + 60 * kMiB);
  EXPECT_GE(PeakResidentBytes() + kMiB, with_buffer);  // The kernel counts both per CPU and adds up now and then.
  EXPECT_LT(ResidentBytes(), with_buffer - 30 * kMiB);
}

TEST(HugePageBytesTest, AreNoMoreThanWhatIsResident) { EXPECT_LE(HugePageBytesInUse(), ResidentBytes()); }

}  // namespace
}  // namespace kvern
