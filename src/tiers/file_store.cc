#include "tiers/file_store.h"

#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace kvern {
namespace {

// Not against an enemy: against a device that errs. Eight bytes at a time, each of which changes all later state.
uint64_t Checksum(std::span<const uint8_t> bytes) {
  uint64_t hash = 0x9E3779B97F4A7C15u ^ bytes.size();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 31;
  };
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, &bytes[i], sizeof(word));
    mix(word);
  }
  for (; i < bytes.size(); ++i) mix(bytes[i]);
  return hash;
}

}  // namespace

FileStore::FileStore(std::unique_ptr<ScratchFile> file, uint64_t limit_bytes)
    : file_(std::move(file)), limit_bytes_(limit_bytes) {}

Status FileStore::Put(uint64_t id, std::span<const uint8_t> bytes) {
  KVERN_CHECK(!records_.contains(id));
  std::vector<uint64_t>& places = free_offsets_[bytes.size()];
  const bool is_new_place = places.empty();
  if (is_new_place && bytes.size() > limit_bytes_ - file_bytes_) {
    return Status::ResourceExhausted("the second memory holds " + std::to_string(used_bytes_) + " bytes, limit " +
                                     std::to_string(limit_bytes_) + "; a block of " + std::to_string(bytes.size()) +
                                     " more came");
  }
  const uint64_t offset = is_new_place ? file_bytes_ : places.back();
  KVERN_RETURN_IF_ERROR(file_->Write(offset, bytes));
  is_new_place ? void(file_bytes_ += bytes.size()) : places.pop_back();
  used_bytes_ += bytes.size();
  records_[id] = {offset, bytes.size(), Checksum(bytes)};
  return Status::Ok();
}

Status FileStore::Get(uint64_t id, std::span<uint8_t> bytes) {
  const auto found = records_.find(id);
  if (found == records_.end() || found->second.num_bytes != bytes.size()) {
    return Status::NotFound("the second memory has no block " + std::to_string(id) + " of " +
                            std::to_string(bytes.size()) + " bytes");
  }
  KVERN_RETURN_IF_ERROR(file_->Read(found->second.offset, bytes));
  if (Checksum(bytes) == found->second.checksum) return Status::Ok();
  return Status::Corruption("the second memory gave back other bytes than it was given");
}

void FileStore::Erase(uint64_t id) {
  const auto found = records_.find(id);
  if (found == records_.end()) return;
  free_offsets_[found->second.num_bytes].push_back(found->second.offset);
  used_bytes_ -= found->second.num_bytes;
  records_.erase(found);
}

}  // namespace kvern
