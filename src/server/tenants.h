// Tenants: who may use the server, and how many requests each may have in flight.
//
// A file of keys has one line per key:   NAME KEY [cache=GROUP] [admin]
// KEY is the key itself or "sha256:" and the digest of the key in hex. Lines that begin with # and empty ones count for
// nothing. Tenants with the same cache group may reuse each other's cached prefixes; otherwise none does. Admins may
// also read /metrics and /v1/cache, which tell about all tenants.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kvern/status.h"

namespace kvern::server {

struct Tenant {
  std::string name;
  std::string cache_group;  // Requests share cached blocks only within a group.
  bool is_admin = false;
};

// Keys are kept and compared as SHA-256, so that neither memory nor time tells about them.
class ApiKeys {
 public:
  // kInvalidArgument names the line. No keys at all are an error: everybody would be refused.
  static Result<ApiKeys> Parse(std::string_view text, const std::string& source);
  static Result<ApiKeys> Load(const std::string& path);

  // The tenant of `key`, or nullptr. Takes the same time for any key of one length.
  const Tenant* Find(std::string_view key) const;
  size_t size() const { return entries_.size(); }

 private:
  using Digest = std::array<uint8_t, 32>;
  struct Entry {
    Digest digest;
    Tenant tenant;
  };
  static Digest DigestOf(std::string_view key);
  std::vector<Entry> entries_;
};

// Counts answers in flight: a request for several is so many. Any thread.
class TenantSlots {
 public:
  // Answers in flight while alive. Must not outlive the TenantSlots.
  class Slot {
   public:
    Slot() = default;
    Slot(TenantSlots& slots, std::string tenant, uint32_t num_answers)
        : slots_(&slots), tenant_(std::move(tenant)), num_answers_(num_answers) {}
    Slot(Slot&& other) noexcept
        : slots_(std::exchange(other.slots_, nullptr)),
          tenant_(std::move(other.tenant_)),
          num_answers_(other.num_answers_) {}
    Slot& operator=(Slot&& other) = delete;
    ~Slot() {
      if (slots_ != nullptr) slots_->Release(tenant_, num_answers_);
    }

   private:
    TenantSlots* slots_ = nullptr;
    std::string tenant_;
    uint32_t num_answers_ = 0;
  };

  explicit TenantSlots(uint32_t max_per_tenant) : max_per_tenant_(max_per_tenant) {}
  // kUnavailable where the tenant has so many that these are too many; kInvalidArgument where they always are.
  Result<Slot> Acquire(const std::string& tenant, uint32_t num_answers);

 private:
  void Release(const std::string& tenant, uint32_t num_answers);

  const uint32_t max_per_tenant_;
  std::mutex mutex_;
  std::map<std::string, uint32_t> in_flight_;  // Guarded by mutex_.
};

}  // namespace kvern::server
