// What stored codes of K and V are multiplied with as integers. Included before a target's region begins.
#pragma once

#include <cstdint>

namespace kvern {

enum class KvFactor : uint8_t {
  kQuery15,  // A query in 15 bits: -16256 to 16256.
  kQuery8,   // A query in 8 bits: -127 to 127.
  kWeight,   // The weights of slots in 15 bits: 0 to 32767.
};

}  // namespace kvern
