// MemFileSystem: files held in memory, for tests. FaultFileSystem: any FileSystem, made to fail at a chosen call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/file_system.h"

namespace kvern {

// A path is a directory, a slash and a name; directories need not be made. A mapping keeps the bytes it saw, whatever
// happens to the file afterwards.
class MemFileSystem : public FileSystem {
 public:
  // Creates or replaces a file.
  void Put(const std::string& path, std::vector<uint8_t> bytes);
  // What a file holds now; nullopt where there is none.
  std::optional<std::vector<uint8_t>> Contents(const std::string& path) const;

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& directory) override;
  Status Remove(const std::string& path) override;

 private:
  class Mapping;
  class Writer;
  using Bytes = std::vector<uint8_t>;

  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const Bytes>> files_;  // Guarded by mutex_; shared with the mappings.
};

// Passes every call on to `base` (which must outlive it) until call number `first_failing_call`, counted from 0 over
// Map, Create, List, Remove, Append and Close; that call and all later ones fail with kIoError and change nothing.
class FaultFileSystem : public FileSystem {
 public:
  FaultFileSystem(FileSystem& base, uint64_t first_failing_call)
      : base_(base), first_failing_call_(first_failing_call) {}

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> Create(const std::string& path) override;
  Result<std::vector<std::string>> List(const std::string& directory) override;
  Status Remove(const std::string& path) override;

 private:
  class Writer;
  Status NextCall(const std::string& path);

  FileSystem& base_;
  const uint64_t first_failing_call_;
  std::mutex mutex_;
  uint64_t num_calls_ = 0;  // Guarded by mutex_.
};

}  // namespace kvern
