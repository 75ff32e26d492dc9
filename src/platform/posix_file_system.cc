#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "platform/file_system.h"

namespace kvern {
namespace {

// "cannot open models/x.gguf: No such file or directory", of the kind that `error` (an errno) stands for.
Status ErrnoStatus(std::string_view what, const std::string& path, int error) {
  const std::string message =
      "cannot " + std::string(what) + " " + path + ": " + std::generic_category().message(error);
  switch (error) {
    case ENOENT:
    case ENOTDIR: return Status::NotFound(message);
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return Status::ResourceExhausted(message);
    default: return Status::IoError(message);
  }
}

// A path that the system would cut at a zero byte names another file.
Status CheckPath(const std::string& path) {
  if (path.find('\0') == std::string::npos) return Status::Ok();
  return Status::InvalidArgument("path holds a zero byte: " + std::string(path.c_str()) + "\\0...");
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

int OpenRetrying(const std::string& path, int flags, mode_t mode = 0) {
  int fd;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

class PosixMappedFile final : public MappedFile {
 public:
  // `data` is a mapping of `num_bytes` bytes, or null and 0 for an empty file.
  PosixMappedFile(uint8_t* data, size_t num_bytes) : data_(data), size_(num_bytes) {}
  ~PosixMappedFile() override {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  PosixMappedFile(const PosixMappedFile&) = delete;
  PosixMappedFile& operator=(const PosixMappedFile&) = delete;

  std::span<const uint8_t> bytes() const override { return {data_, size_}; }

  void Release(size_t offset, size_t num_bytes) override {
    KVERN_DCHECK(offset <= size_ && num_bytes <= size_ - offset);
    if (data_ == nullptr) return;
    const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t end_byte = offset + num_bytes;
    // Only whole pages inside the range: its neighbours may still be needed. The file's last page counts as whole.
    const size_t begin = (offset + page - 1) / page * page;
    const size_t end = end_byte == size_ ? size_ : end_byte / page * page;
    if (begin < end) ::madvise(data_ + begin, end - begin, MADV_DONTNEED);
  }

 private:
  uint8_t* data_;
  size_t size_;
};

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(FileDescriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Status Append(std::span<const uint8_t> bytes) override {
    KVERN_CHECK(file_.get() >= 0);
    KVERN_RETURN_IF_ERROR(first_error_);
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        NoteFailure("write to");
        return first_error_;
      }
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return Status::Ok();
  }

  Status Close() override {
    KVERN_CHECK(file_.get() >= 0);
    int result;
    do {
      result = ::fsync(file_.get());
    } while (result < 0 && errno == EINTR);
    // A pipe or terminal has nothing to flush to.
    if (result < 0 && errno != EINVAL && errno != ENOTSUP) NoteFailure("flush");
    // After EINTR the descriptor is gone as well; closing again could close someone else's.
    if (::close(file_.release()) < 0 && errno != EINTR) NoteFailure("close");
    return first_error_;
  }

 private:
  // Keeps the first failure: a file with a hole in it is never closed as good.
  void NoteFailure(std::string_view what) {
    if (first_error_.ok()) first_error_ = ErrnoStatus(what, path_, errno);
  }

  FileDescriptor file_;
  std::string path_;
  Status first_error_;
};

class Posix final : public FileSystem {
 public:
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    KVERN_RETURN_IF_ERROR(CheckPath(path));
    // O_NONBLOCK: opening a pipe that nobody writes to must not hang.
    const FileDescriptor file(OpenRetrying(path, O_RDONLY | O_NONBLOCK));
    if (file.get() < 0) return ErrnoStatus("open", path, errno);
    struct stat info;
    if (::fstat(file.get(), &info) < 0) return ErrnoStatus("read the size of", path, errno);
    if (S_ISDIR(info.st_mode)) return Status::IoError("cannot read " + path + ": it is a directory, expected a file");
    if (!S_ISREG(info.st_mode)) return Status::IoError("cannot read " + path + ": it is not a regular file");
    const auto size = static_cast<size_t>(info.st_size);
    if (size == 0) return std::unique_ptr<MappedFile>(std::make_unique<PosixMappedFile>(nullptr, 0));

    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (data == MAP_FAILED) return ErrnoStatus("map", path, errno);
    // Weights are read once, front to back. No MADV_WILLNEED: reading a header must not read the whole model.
    ::madvise(data, size, MADV_SEQUENTIAL);
    return std::unique_ptr<MappedFile>(std::make_unique<PosixMappedFile>(static_cast<uint8_t*>(data), size));
  }

  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    KVERN_RETURN_IF_ERROR(CheckPath(path));
    FileDescriptor file(OpenRetrying(path, O_WRONLY | O_CREAT | O_TRUNC, 0666));
    if (file.get() < 0) return ErrnoStatus("create", path, errno);
    return std::unique_ptr<WritableFile>(std::make_unique<PosixWritableFile>(std::move(file), path));
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    KVERN_RETURN_IF_ERROR(CheckPath(directory));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), &::closedir);
    if (stream == nullptr) return ErrnoStatus("list", directory, errno);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) break;
      struct stat info;  // Follows links: a linked model is a model.
      if (::fstatat(::dirfd(stream.get()), entry->d_name, &info, 0) == 0 && S_ISREG(info.st_mode)) {
        names.emplace_back(entry->d_name);
      }
    }
    if (errno != 0) return ErrnoStatus("list", directory, errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status Remove(const std::string& path) override {
    KVERN_RETURN_IF_ERROR(CheckPath(path));
    if (::unlink(path.c_str()) < 0) return ErrnoStatus("remove", path, errno);
    return Status::Ok();
  }
};

}  // namespace

FileSystem& PosixFileSystem() {
  static Posix file_system;
  return file_system;
}

}  // namespace kvern
