// BlockStore: a second memory for blocks of the KV cache. It moves bytes under ids and knows neither codec nor model.
#pragma once

#include <cstdint>
#include <span>

#include "kvern/status.h"

namespace kvern {

// All calls come from the engine thread. What is put there is needed again only while the process lives.
class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // Keeps `bytes` under `id`, which must be new. kResourceExhausted where there is no room, kIoError where the device
  // fails; then nothing is kept under it.
  virtual Status Put(uint64_t id, std::span<const uint8_t> bytes) = 0;
  // The bytes of `id`, all of them, as they were put: kCorruption where they are not, kNotFound for an unknown id or
  // another size, kIoError where the device fails.
  virtual Status Get(uint64_t id, std::span<uint8_t> bytes) = 0;
  // Forgets `id` where it is known.
  virtual void Erase(uint64_t id) = 0;

  virtual uint64_t used_bytes() const = 0;
  virtual uint64_t limit_bytes() const = 0;
};

}  // namespace kvern
