// FileSystem: everything kvern does to files, behind one interface so that tests can hold them in memory and make them
// fail. Thread-safe. Every error message names the path.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kvern/status.h"

namespace kvern {

// A whole file, readable as bytes for as long as this lives. The size is taken once. PosixFileSystem maps the file, so
// nobody may truncate it meanwhile (the system ends a process that reads behind the new end); replacing it by renaming
// another over it is safe.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const uint8_t> bytes() const = 0;
  // These bytes are not needed soon: their memory may be given back (they stay readable). Used while weights are
  // packed.
  virtual void Release(size_t offset, size_t num_bytes) = 0;
};

class WritableFile {
 public:
  virtual ~WritableFile() = default;  // An unclosed file keeps what was written so far.
  virtual Status Append(std::span<const uint8_t> bytes) = 0;
  // Flushes to the device and closes; nothing may be appended afterwards.
  virtual Status Close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // kNotFound when absent, kResourceExhausted when the system has no room, kIoError for anything else (a directory, no
  // permission). An empty file gives empty bytes.
  virtual Result<std::unique_ptr<MappedFile>> Map(const std::string& path) = 0;
  // Truncates an existing file.
  virtual Result<std::unique_ptr<WritableFile>> Create(const std::string& path) = 0;
  // The names (not paths) of the regular files in `directory`, sorted.
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;
  virtual Status Remove(const std::string& path) = 0;
};

// The operating system's files. Lives as long as the process.
FileSystem& PosixFileSystem();

}  // namespace kvern
