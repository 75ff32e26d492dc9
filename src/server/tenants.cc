#include "server/tenants.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace kvern::server {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMinKeyBytes = 8;
constexpr std::string_view kDigestPrefix = "sha256:";

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool ReadHex(std::string_view hex, std::array<uint8_t, 32>& bytes) {
  if (hex.size() != 2 * bytes.size()) return false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = HexValue(hex[2 * i]), low = HexValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

}  // namespace

ApiKeys::Digest ApiKeys::DigestOf(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

Result<ApiKeys> ApiKeys::Parse(std::string_view text, const std::string& source) {
  ApiKeys keys;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (size_t number = 1; std::getline(lines, line); ++number) {
    const auto wrong = [&](const std::string& what) {
      return Status::InvalidArgument(source + " line " + std::to_string(number) + ": " + what);
    };
    std::istringstream words(line);
    Entry entry;
    std::string key;
    if (!(words >> entry.tenant.name) || entry.tenant.name.starts_with('#')) continue;
    if (!(words >> key)) return wrong("expected NAME KEY [cache=GROUP] [admin], found one word");
    if (!IsName(entry.tenant.name)) {
      return wrong("the name is expected to be up to " + std::to_string(kMaxNameBytes) + " letters, digits and - _ .");
    }
    // Tenants without a group are groups of their own, which no group of the file can be.
    entry.tenant.cache_group = "tenant:" + entry.tenant.name;
    for (std::string word; words >> word;) {
      if (word == "admin") {
        entry.tenant.is_admin = true;
      } else if (word.starts_with("cache=") && IsName(std::string_view(word).substr(6))) {
        entry.tenant.cache_group = "group:" + word.substr(6);
      } else {
        return wrong("'" + word + "' is neither cache=GROUP nor admin");
      }
    }
    if (key.starts_with(kDigestPrefix)) {
      if (!ReadHex(std::string_view(key).substr(kDigestPrefix.size()), entry.digest)) {
        return wrong("expected 64 hex digits after sha256:");
      }
      if (entry.digest == DigestOf("")) return wrong("the digest is that of an empty key, which everybody has");
    } else if (key.size() < kMinKeyBytes) {
      return wrong("the key is shorter than " + std::to_string(kMinKeyBytes) + " bytes");
    } else {
      entry.digest = DigestOf(key);
    }
    for (const Entry& other : keys.entries_) {
      if (other.digest == entry.digest) return wrong("the key stands in the file twice");
    }
    keys.entries_.push_back(std::move(entry));
  }
  if (keys.entries_.empty()) return Status::InvalidArgument(source + ": holds no key");
  return keys;
}

Result<ApiKeys> ApiKeys::Load(const std::string& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {  // Can be opened, but reading throws.
    return Status::IoError(path + " cannot be read: it is a directory, expected a file of keys");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::IoError(path + " cannot be read: " + std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) return Status::IoError(path + " cannot be read");
  return Parse(text, path);
}

const Tenant* ApiKeys::Find(std::string_view key) const {
  const Digest digest = DigestOf(key);
  const Tenant* found = nullptr;
  for (const Entry& entry : entries_) {  // All of them, so that the time does not tell which one it is.
    const bool is_equal = CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0;
    found = is_equal ? &entry.tenant : found;
  }
  return found;
}

Result<TenantSlots::Slot> TenantSlots::Acquire(const std::string& tenant, uint32_t num_answers) {
  const std::string limit = ", limit " + std::to_string(max_per_tenant_);
  if (num_answers > max_per_tenant_) {
    return Status::InvalidArgument("the request is for " + std::to_string(num_answers) + " answers" + limit);
  }
  const std::lock_guard lock(mutex_);
  uint32_t& count = in_flight_[tenant];
  if (count > max_per_tenant_ - num_answers) {
    return Status::Unavailable(std::to_string(count) + " answers of yours are in flight" + limit);
  }
  count += num_answers;
  return Slot(*this, tenant, num_answers);
}

void TenantSlots::Release(const std::string& tenant, uint32_t num_answers) {
  const std::lock_guard lock(mutex_);
  const auto found = in_flight_.find(tenant);
  if ((found->second -= num_answers) == 0) in_flight_.erase(found);
}

}  // namespace kvern::server
