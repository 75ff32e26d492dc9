// AlignedBuffer: owned, aligned, zero-filled bytes; MemoryAllocator: where they come from.
// Modules that may not see the operating system get an allocator from outside (platform/huge_pages.h has the one that
// asks for huge pages); HeapAllocator is the plain one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kvern/status.h"

namespace kvern {

// Move-only bytes, zero-filled when made, aligned to at least 64.
class AlignedBuffer {
 public:
  using Deleter = void (*)(void* data, size_t num_bytes);

  AlignedBuffer() = default;
  AlignedBuffer(uint8_t* data, size_t num_bytes, Deleter deleter) : data_(data), size_(num_bytes), deleter_(deleter) {}
  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(deleter_, other.deleter_);
    return *this;
  }
  ~AlignedBuffer() {
    if (data_ != nullptr) deleter_(data_, size_);
  }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<uint8_t> bytes() { return {data_, size_}; }
  // The buffer as an array of T.
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  Deleter deleter_ = nullptr;
};

// Hands out AlignedBuffers. Thread-safe. A buffer may outlive its allocator.
class MemoryAllocator {
 public:
  virtual ~MemoryAllocator() = default;
  // `num_bytes` zero-filled bytes, aligned to 64 at least. kResourceExhausted when the system has none; the message
  // says how many were asked for. 0 bytes give an empty buffer.
  virtual Result<AlignedBuffer> Allocate(size_t num_bytes) = 0;
};

// The C++ heap; lives as long as the process.
MemoryAllocator& HeapAllocator();

}  // namespace kvern
