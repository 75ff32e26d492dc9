#include "platform/huge_pages.h"

#include <sys/mman.h>

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "base/checked_math.h"

namespace kvern {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallestMapping = size_t{4} << 20;

void Unmap(void* data, size_t num_bytes) { ::munmap(data, RoundUp(num_bytes, kHugePage)); }

class HugePages final : public MemoryAllocator {
 public:
  Result<AlignedBuffer> Allocate(size_t num_bytes) override {
    if (num_bytes < kSmallestMapping) return HeapAllocator().Allocate(num_bytes);
    void* mapping = MAP_FAILED;
    if (num_bytes <= SIZE_MAX - 2 * kHugePage) {
      // One huge page more than needed; what lies outside the aligned part is given back.
      mapping = ::mmap(nullptr, RoundUp(num_bytes, kHugePage) + kHugePage, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    if (mapping == MAP_FAILED) {
      return Status::ResourceExhausted("cannot allocate " + std::to_string(num_bytes) + " bytes of memory");
    }
    auto* begin = static_cast<uint8_t*>(mapping);
    const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
    auto* data = begin + head;
    const size_t size = RoundUp(num_bytes, kHugePage);
    if (head > 0) ::munmap(begin, head);
    ::munmap(data + size, kHugePage - head);
    ::madvise(data, size, MADV_HUGEPAGE);  // A wish: without it the same memory comes in small pages.
    return AlignedBuffer(data, num_bytes, &Unmap);
  }
};

// The value of the line "key:   123 kB" of a file under /proc, in bytes; 0 where there is none.
uint64_t ReadKilobytes(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    const size_t digit = line.find_first_of("0123456789", key.size());
    if (digit == std::string::npos) return 0;
    uint64_t kilobytes = 0;
    std::from_chars(line.data() + digit, line.data() + line.size(), kilobytes);
    return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

MemoryAllocator& HugePageAllocator() {
  static HugePages allocator;
  return allocator;
}

uint64_t HugePageBytesInUse() { return ReadKilobytes("/proc/self/smaps_rollup", "AnonHugePages:"); }
uint64_t ResidentBytes() { return ReadKilobytes("/proc/self/status", "VmRSS:"); }
uint64_t PeakResidentBytes() { return ReadKilobytes("/proc/self/status", "VmHWM:"); }

}  // namespace kvern
