#include "server/tenants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvern::server {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) { return ApiKeys::Parse(text, "keys.txt").status().message(); }

TEST(ApiKeysTest, EachKeyIsATenant) {
  const ApiKeys keys =
      ApiKeys::Parse(
          "# comment\n\nalice alice-secret\nbob bob-secret-1 cache=team admin\ncarol carols-key cache=team\n"
          "dave daves-secret\n",
          "keys.txt")
          .value();

  ASSERT_EQ(keys.size(), 4u);
  EXPECT_EQ(keys.Find("alice-secret")->name, "alice");
  EXPECT_FALSE(keys.Find("alice-secret")->is_admin);
  EXPECT_TRUE(keys.Find("bob-secret-1")->is_admin);
  EXPECT_EQ(keys.Find("bob-secret-1")->cache_group, keys.Find("carols-key")->cache_group);
  EXPECT_NE(keys.Find("alice-secret")->cache_group, keys.Find("carols-key")->cache_group);
  for (const char* wrong : {"", "alice", "alice-secre", "alice-secret ", "Alice-secret", "# comment"}) {
    EXPECT_EQ(keys.Find(wrong), nullptr) << wrong;
  }
}

TEST(ApiKeysTest, ADigestStandsForItsKey) {
  // The digest of "abc", of FIPS 180-2 appendix B.1.
  const ApiKeys keys =
      ApiKeys::Parse("a sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", "keys.txt").value();

  EXPECT_EQ(keys.Find("abc")->name, "a");
  EXPECT_EQ(keys.Find("sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD"), nullptr);
}

TEST(ApiKeysTest, NoTenantCanTakeTheNameOfAGroup) {
  const ApiKeys keys = ApiKeys::Parse("team first-key\nother second-key cache=team\n", "keys.txt").value();

  EXPECT_NE(keys.Find("first-key")->cache_group, keys.Find("second-key")->cache_group);
}

TEST(ApiKeysTest, AWrongLineIsNamed) {
  EXPECT_EQ(ErrorOf(""), "keys.txt: holds no key");
  EXPECT_THAT(ErrorOf("alice alice-secret\nbob\n"), HasSubstr("keys.txt line 2: expected NAME KEY"));
  EXPECT_THAT(ErrorOf("alice short"), HasSubstr("shorter than 8"));
  EXPECT_THAT(ErrorOf("al\"ice long-enough"), HasSubstr("letters, digits"));
  EXPECT_THAT(ErrorOf("alice long-enough cash=x"), HasSubstr("'cash=x'"));
  EXPECT_THAT(ErrorOf("alice sha256:abc"), HasSubstr("64 hex digits"));
  // What `printf %s "$UNSET" | sha256sum` says: whoever sends no key would be alice.
  EXPECT_THAT(ErrorOf("alice sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
              HasSubstr("line 1: the digest is that of an empty key"));
  EXPECT_THAT(ErrorOf("alice long-enough\nbob long-enough"), HasSubstr("line 2: the key stands in the file twice"));
  EXPECT_THAT(ApiKeys::Load("no/such/file").status().message(), HasSubstr("no/such/file cannot be read"));
  EXPECT_THAT(ApiKeys::Load("/").status().message(), HasSubstr("/ cannot be read: it is a directory"));
}

TEST(TenantSlotsTest, EachTenantHasItsOwnLimit) {
  TenantSlots slots(/*max_per_tenant=*/2);
  auto first = slots.Acquire("alice", 1);
  {
    auto second = slots.Acquire("alice", 1);
    EXPECT_TRUE(second.ok());
    EXPECT_EQ(slots.Acquire("alice", 1).status().code(), StatusCode::kUnavailable);
    EXPECT_TRUE(slots.Acquire("bob", 2).ok());
  }

  EXPECT_TRUE(slots.Acquire("alice", 1).ok());
}

TEST(TenantSlotsTest, ARequestForSeveralAnswersIsSoMany) {
  TenantSlots slots(/*max_per_tenant=*/3);
  {
    auto first = slots.Acquire("alice", 2);
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(slots.Acquire("alice", 2).status().message(), "2 answers of yours are in flight, limit 3");
    EXPECT_TRUE(slots.Acquire("alice", 1).ok());
  }

  EXPECT_TRUE(slots.Acquire("alice", 3).ok());
  EXPECT_EQ(slots.Acquire("alice", 4).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvern::server
