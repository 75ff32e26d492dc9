#include "platform/file_stamp.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace kvern {
namespace {

std::string Nanoseconds(const struct timespec& time) {
  return std::to_string(int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_nsec});
}

}  // namespace

Result<std::string> StampOfFile(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    const std::string message = path + ": " + std::strerror(errno);
    return errno == ENOENT ? Status::NotFound(message) : Status::IoError(message);
  }
  return std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino) + ":" + std::to_string(info.st_size) + ":" +
         Nanoseconds(info.st_mtim) + ":" + Nanoseconds(info.st_ctim);
}

}  // namespace kvern
