// FileStore: blocks in a scratch file, by pwrite and pread. Records of one size share their places, so a file never
// holds more than the most bytes that were kept at once, give or take other sizes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kvern/block_store.h"
#include "platform/scratch_file.h"

namespace kvern {

class FileStore final : public BlockStore {
 public:
  // At most `limit_bytes` of records at once and of file.
  FileStore(std::unique_ptr<ScratchFile> file, uint64_t limit_bytes);

  Status Put(uint64_t id, std::span<const uint8_t> bytes) override;
  Status Get(uint64_t id, std::span<uint8_t> bytes) override;
  void Erase(uint64_t id) override;
  uint64_t used_bytes() const override { return used_bytes_; }
  uint64_t limit_bytes() const override { return limit_bytes_; }

 private:
  struct Record {
    uint64_t offset;
    uint64_t num_bytes;
    uint64_t checksum;  // A device may give back other bytes than it was given.
  };

  std::unique_ptr<ScratchFile> file_;
  const uint64_t limit_bytes_;
  uint64_t used_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  std::map<uint64_t, Record> records_;
  std::map<uint64_t, std::vector<uint64_t>> free_offsets_;  // By size of record.
};

}  // namespace kvern
