#include "platform/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>

#include <cstring>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <cstdint>

namespace kvern {
namespace {

#if defined(__x86_64__)

// The register states that the operating system saves (XCR0); only to be asked for when CPUID says OSXSAVE.
uint64_t ReadXcr0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

constexpr bool HasBit(uint32_t value, int bit) { return ((value >> bit) & 1) != 0; }

// "Intel(R) Xeon(R) Processor" out of leaves 0x80000002 to 0x80000004, without the blanks around it.
std::string ReadBrand() {
  uint32_t registers[12] = {};
  if (static_cast<uint32_t>(__get_cpuid_max(0x80000000, nullptr)) < 0x80000004) return "unknown";
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t* r = registers + 4 * i;
    __cpuid(0x80000002 + i, r[0], r[1], r[2], r[3]);
  }
  char text[sizeof(registers) + 1] = {};
  std::memcpy(text, registers, sizeof(registers));
  std::string brand = text;
  brand.erase(0, brand.find_first_not_of(' '));
  brand.erase(brand.find_last_not_of(' ') + 1);
  return brand.empty() ? "unknown" : brand;
}

CpuFeatures ReadFeatures() {
  CpuFeatures features;
  features.brand = ReadBrand();
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || !HasBit(ecx, 27)) return features;  // OSXSAVE
  const bool has_fma_f16c_avx = HasBit(ecx, 12) && HasBit(ecx, 29) && HasBit(ecx, 28);
  const uint64_t xcr0 = ReadXcr0();
  const bool saves_ymm = (xcr0 & 0x6) == 0x6;    // xmm, upper ymm
  const bool saves_zmm = (xcr0 & 0xe6) == 0xe6;  // and opmask, upper zmm, zmm16 to zmm31
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return features;
  const uint32_t num_subleaves = eax;
  features.has_avx2 = saves_ymm && has_fma_f16c_avx && HasBit(ebx, 5);
  // F, DQ, BW, VL. Code for it also uses what AVX2 machines have.
  features.has_avx512 =
      features.has_avx2 && saves_zmm && HasBit(ebx, 16) && HasBit(ebx, 17) && HasBit(ebx, 30) && HasBit(ebx, 31);
  features.has_avx512_vnni = features.has_avx512 && HasBit(ecx, 11);
  if (num_subleaves >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) {
    features.has_avx_vnni = features.has_avx2 && HasBit(eax, 4);
  }
  return features;
}

#elif defined(__aarch64__) && defined(__linux__)

CpuFeatures ReadFeatures() {
  CpuFeatures features;
  features.brand = "unknown";
  features.has_neon_dotprod = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return features;
}

#else

CpuFeatures ReadFeatures() {
  CpuFeatures features;
  features.brand = "unknown";
  return features;
}

#endif

}  // namespace

const CpuFeatures& GetCpuFeatures() {
  static const CpuFeatures features = ReadFeatures();
  return features;
}

}  // namespace kvern
