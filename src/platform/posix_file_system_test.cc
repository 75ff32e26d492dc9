#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>
#include <vector>

#include "platform/file_system.h"

namespace kvern {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class PosixFileSystemTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "kvern_fs_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string PathOf(const std::string& name) const { return directory_ + "/" + name; }
  void Put(const std::string& name, const std::string& text) const { std::ofstream(PathOf(name)) << text; }
  std::string Text(const std::string& name) const {
    std::ifstream file(PathOf(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::span<const uint8_t> Bytes(std::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  }

  FileSystem& files_ = PosixFileSystem();
  std::string directory_;
};

TEST_F(PosixFileSystemTest, MapsWhatTheFileHolds) {
  Put("a", "grind");

  const auto file = files_.Map(PathOf("a"));

  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_THAT((*file)->bytes(), ElementsAre('g', 'r', 'i', 'n', 'd'));
}

TEST_F(PosixFileSystemTest, MapsAnEmptyFileAsNoBytes) {
  Put("empty", "");

  const auto file = files_.Map(PathOf("empty"));

  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_TRUE((*file)->bytes().empty());
  (*file)->Release(0, 0);
}

TEST_F(PosixFileSystemTest, AMappingOutlivesTheNameOfItsFile) {
  Put("a", "grind");
  const auto file = files_.Map(PathOf("a"));
  ASSERT_TRUE(file.ok());

  ASSERT_TRUE(files_.Remove(PathOf("a")).ok());

  EXPECT_EQ((*file)->bytes()[4], 'd');
}

TEST_F(PosixFileSystemTest, ReleasedBytesStayReadable) {
  std::string text(100'000, '\0');
  std::iota(text.begin(), text.end(), 0);
  Put("a", text);
  const auto file = files_.Map(PathOf("a"));
  ASSERT_TRUE(file.ok());

  (*file)->Release(10, 50'000);
  (*file)->Release(50'010, 49'990);
  (*file)->Release(100'000, 0);
  (*file)->Release(5, 1);

  EXPECT_THAT((*file)->bytes(), ElementsAreArray(Bytes(text)));
}

TEST_F(PosixFileSystemTest, MappingAnAbsentFileIsNotFoundAndNamesIt) {
  const Status status = files_.Map(PathOf("absent")).status();

  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "cannot open " + PathOf("absent") + ": No such file or directory");
}

TEST_F(PosixFileSystemTest, MappingADirectorySaysSo) {
  const Status status = files_.Map(directory_).status();

  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_EQ(status.message(), "cannot read " + directory_ + ": it is a directory, expected a file");
}

TEST_F(PosixFileSystemTest, MappingAPipeDoesNotHang) {
  ASSERT_EQ(::mkfifo(PathOf("pipe").c_str(), 0600), 0);

  const Status status = files_.Map(PathOf("pipe")).status();

  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("not a regular file"));
}

TEST_F(PosixFileSystemTest, MappingWithoutPermissionIsAnIoError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  Put("secret", "x");
  ASSERT_EQ(::chmod(PathOf("secret").c_str(), 0), 0);

  const Status status = files_.Map(PathOf("secret")).status();

  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("Permission denied"));
}

TEST_F(PosixFileSystemTest, APathWithAZeroByteIsRefused) {
  Put("a", "x");

  const Status status = files_.Map(PathOf("a") + std::string("\0b", 2)).status();

  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST_F(PosixFileSystemTest, AppendsInOrder) {
  auto file = files_.Create(PathOf("out"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();

  EXPECT_TRUE((*file)->Append(Bytes("one ")).ok());
  EXPECT_TRUE((*file)->Append({}).ok());
  EXPECT_TRUE((*file)->Append(Bytes("two")).ok());
  EXPECT_TRUE((*file)->Close().ok());

  EXPECT_EQ(Text("out"), "one two");
}

TEST_F(PosixFileSystemTest, CreatingTruncatesWhatWasThere) {
  Put("out", "a long text");
  auto file = files_.Create(PathOf("out"));
  ASSERT_TRUE(file.ok());

  EXPECT_TRUE((*file)->Append(Bytes("x")).ok());
  EXPECT_TRUE((*file)->Close().ok());

  EXPECT_EQ(Text("out"), "x");
}

TEST_F(PosixFileSystemTest, AnUnclosedFileKeepsWhatWasWritten) {
  {
    auto file = files_.Create(PathOf("out"));
    ASSERT_TRUE(file.ok());
    EXPECT_TRUE((*file)->Append(Bytes("half")).ok());
  }

  EXPECT_EQ(Text("out"), "half");
}

TEST_F(PosixFileSystemTest, CreatingInAnAbsentDirectoryIsNotFound) {
  EXPECT_EQ(files_.Create(PathOf("absent/out")).status().code(), StatusCode::kNotFound);
}

TEST_F(PosixFileSystemTest, CreatingOverADirectoryIsAnIoError) {
  EXPECT_EQ(files_.Create(directory_).status().code(), StatusCode::kIoError);
}

TEST_F(PosixFileSystemTest, AFullDeviceFailsTheAppendAndTheClose) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this system has no /dev/full";
  auto file = files_.Create("/dev/full");
  ASSERT_TRUE(file.ok()) << file.status().ToString();

  const Status append = (*file)->Append(Bytes("x"));
  const Status close = (*file)->Close();

  EXPECT_EQ(append.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(append.message(), "cannot write to /dev/full: No space left on device");
  EXPECT_EQ(close.message(), append.message());
}

TEST_F(PosixFileSystemTest, ListsRegularFilesAndLinksToThemSorted) {
  Put("b", "");
  Put("a", "");
  std::filesystem::create_directory(PathOf("folder"));
  std::filesystem::create_symlink(PathOf("a"), PathOf("c_link"));
  std::filesystem::create_symlink(PathOf("nowhere"), PathOf("d_dangling"));

  const auto names = files_.List(directory_);

  ASSERT_TRUE(names.ok()) << names.status().ToString();
  EXPECT_THAT(*names, ElementsAre("a", "b", "c_link"));
}

TEST_F(PosixFileSystemTest, ListingAnAbsentDirectoryOrAFileIsNotFound) {
  Put("a", "");

  EXPECT_EQ(files_.List(PathOf("absent")).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(files_.List(PathOf("a")).status().code(), StatusCode::kNotFound);
}

TEST_F(PosixFileSystemTest, RemovesAFileOnce) {
  Put("a", "");

  EXPECT_TRUE(files_.Remove(PathOf("a")).ok());
  EXPECT_EQ(files_.Remove(PathOf("a")).code(), StatusCode::kNotFound);
}

TEST_F(PosixFileSystemTest, DoesNotRemoveADirectory) {
  EXPECT_EQ(files_.Remove(directory_).code(), StatusCode::kIoError);
  EXPECT_TRUE(std::filesystem::is_directory(directory_));
}

}  // namespace
}  // namespace kvern
