#include "platform/scratch_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace kvern {
namespace {

Status ErrnoStatus(const std::string& what, const std::string& directory, int error) {
  const std::string message =
      "cannot " + what + " a scratch file in " + directory + ": " + std::generic_category().message(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR: return Status::NotFound(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE: return Status::ResourceExhausted(message);
    default: return Status::IoError(message);
  }
}

class PosixScratchFile final : public ScratchFile {
 public:
  PosixScratchFile(int fd, std::string directory) : fd_(fd), directory_(std::move(directory)) {}
  ~PosixScratchFile() override { ::close(fd_); }
  PosixScratchFile(const PosixScratchFile&) = delete;
  PosixScratchFile& operator=(const PosixScratchFile&) = delete;

  Status Write(uint64_t offset, std::span<const uint8_t> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoStatus("write to", directory_, errno);
      if (written == 0) return ErrnoStatus("write to", directory_, ENOSPC);
      offset += static_cast<uint64_t>(written);
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return Status::Ok();
  }

  Status Read(uint64_t offset, std::span<uint8_t> bytes) override {
    while (!bytes.empty()) {
      const ssize_t got = ::pread(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrnoStatus("read from", directory_, errno);
      if (got == 0) return Status::IoError("a scratch file in " + directory_ + " ends at byte " + std::to_string(offset));
      offset += static_cast<uint64_t>(got);
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
    return Status::Ok();
  }

 private:
  const int fd_;
  const std::string directory_;
};

}  // namespace

Result<std::unique_ptr<ScratchFile>> CreateScratchFile(const std::string& directory) {
  if (directory.empty() || directory.find('\0') != std::string::npos) {
    return Status::InvalidArgument("the directory of a scratch file is empty or holds a zero byte");
  }
  std::string path = directory + "/kvern-XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("make", directory, errno);
  if (::unlink(path.c_str()) != 0) {
    const int error = errno;
    ::close(fd);
    return ErrnoStatus("unlink", directory, error);
  }
  return std::unique_ptr<ScratchFile>(std::make_unique<PosixScratchFile>(fd, directory));
}

}  // namespace kvern
