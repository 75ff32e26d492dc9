// The kernel tables of this build's targets; dispatch.cc says which of them a CPU can run.
#pragma once

#include "kernels/kernel_table.h"

namespace kvern {

namespace generic {
extern const KernelTable kKernelTable;
}

#if defined(__x86_64__)
namespace avx2 {
extern const KernelTable kKernelTable;
}
namespace avx2_vnni {
extern const KernelTable kKernelTable;
}
namespace avx512 {
extern const KernelTable kKernelTable;
}
namespace avx512_vnni {
extern const KernelTable kKernelTable;
}
#elif defined(__aarch64__)
namespace neon {
extern const KernelTable kKernelTable;
}
#endif

}  // namespace kvern
