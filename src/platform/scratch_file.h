// ScratchFile: a file for bytes that nobody needs once the process has ended. It has no name while it is used, so
// nothing is left behind, however the process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kvern/status.h"

namespace kvern {

class ScratchFile {
 public:
  virtual ~ScratchFile() = default;  // The system takes the room back.
  // Writes all of `bytes` at `offset`. kResourceExhausted where the device is full, kIoError for anything else.
  virtual Status Write(uint64_t offset, std::span<const uint8_t> bytes) = 0;
  // Reads all of `bytes` from `offset`; kIoError where there are fewer.
  virtual Status Read(uint64_t offset, std::span<uint8_t> bytes) = 0;
};

// In `directory`, which must exist: kNotFound where it does not.
Result<std::unique_ptr<ScratchFile>> CreateScratchFile(const std::string& directory);

}  // namespace kvern
