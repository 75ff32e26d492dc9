// What this CPU and its operating system offer, read from CPUID and XGETBV (x86) or the ELF auxiliary vector (Arm).
#pragma once

#include <string>

namespace kvern {

struct CpuFeatures {
  bool has_avx2 = false;          // AVX2 + FMA + F16C, and the OS saves ymm.
  bool has_avx_vnni = false;      // vpdpbusd on ymm, VEX encoding.
  bool has_avx512 = false;        // F, BW, VL, DQ, and the OS saves zmm.
  bool has_avx512_vnni = false;   // vpdpbusd on zmm.
  bool has_neon_dotprod = false;  // sdot (FEAT_DotProd).
  std::string brand;              // "AMD Ryzen 9 ..."; "unknown" where the CPU does not say.
};

// Read once, then cached. Thread-safe.
const CpuFeatures& GetCpuFeatures();

}  // namespace kvern
