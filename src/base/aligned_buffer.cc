#include "base/aligned_buffer.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "base/checked_math.h"

namespace kvern {
namespace {

constexpr size_t kAlignment = 64;

class Heap final : public MemoryAllocator {
 public:
  Result<AlignedBuffer> Allocate(size_t num_bytes) override {
    if (num_bytes == 0) return AlignedBuffer();
    void* data =
        num_bytes > SIZE_MAX - kAlignment ? nullptr : std::aligned_alloc(kAlignment, RoundUp(num_bytes, kAlignment));
    if (data == nullptr) {
      return Status::ResourceExhausted("cannot allocate " + std::to_string(num_bytes) + " bytes of memory");
    }
    std::memset(data, 0, num_bytes);
    return AlignedBuffer(static_cast<uint8_t*>(data), num_bytes, [](void* p, size_t) { std::free(p); });
  }
};

}  // namespace

MemoryAllocator& HeapAllocator() {
  static Heap heap;
  return heap;
}

}  // namespace kvern
