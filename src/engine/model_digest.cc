#include "kvern/model_digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/thread_pool.h"
#include "gguf/gguf_parser.h"
#include "platform/affinity.h"
#include "platform/file_stamp.h"
#include "platform/file_system.h"

namespace kvern {
namespace {

// Changes with what goes into the digest.
constexpr std::string_view kTag = "kvern model digest 1";

using Sha256 = std::array<uint8_t, 32>;

Sha256 HashOf(std::span<const uint8_t> bytes) {
  Sha256 digest;
  // Fails only where the library has no SHA-256 at all.
  KVERN_CHECK(EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  return digest;
}

std::string HexOf(const Sha256& digest) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

Result<std::string> ModelDigest(const std::string& path) {
  KVERN_ASSIGN_OR_RETURN(const std::unique_ptr<MappedFile> file, PosixFileSystem().Map(path));
  KVERN_ASSIGN_OR_RETURN(const GgufContents contents, ParseGguf(file->bytes(), path));
  // The header first, then the tensors in the order of the file. One of unknown size counts by its header alone.
  const std::span<const uint8_t> bytes = file->bytes();
  std::vector<std::span<const uint8_t>> parts = {bytes.first(std::min<uint64_t>(contents.data_offset, bytes.size()))};
  for (const GgufTensorInfo& tensor : contents.tensors) {
    if (tensor.num_bytes > 0) parts.push_back(bytes.subspan(tensor.data_offset, tensor.num_bytes));
  }
  std::vector<Sha256> digests(parts.size());
  std::atomic<size_t> next = 0;
  ThreadPool(static_cast<uint32_t>(UsableCpus().size())).Run([&](Worker&) {
    for (size_t i = next++; i < parts.size(); i = next++) digests[i] = HashOf(parts[i]);
  });
  std::vector<uint8_t> all(kTag.begin(), kTag.end());
  for (const Sha256& digest : digests) all.insert(all.end(), digest.begin(), digest.end());
  return HexOf(HashOf(all));
}

Result<std::string> FileStamp(const std::string& path) { return StampOfFile(path); }

}  // namespace kvern
