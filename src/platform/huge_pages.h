// Memory on huge pages where the system gives them.
#pragma once

#include "base/aligned_buffer.h"

namespace kvern {

// Allocations of 4 MiB and more are mapped at 2 MiB borders and advised to use huge pages; smaller ones come from the
// heap. Pages are touched by whoever writes them first. Lives as long as the process.
MemoryAllocator& HugePageAllocator();

// Bytes of this process that stand on anonymous huge pages now, or 0 where the system does not tell.
uint64_t HugePageBytesInUse();

// Resident set of this process now and at its peak, in bytes; 0 where the system does not tell.
uint64_t ResidentBytes();
uint64_t PeakResidentBytes();

}  // namespace kvern
