#include "kvcache/prefix_pins.h"

#include <algorithm>
#include <string>
#include <utility>

namespace kvern {

PrefixPins::PrefixPins(KvCache& cache, uint64_t limit_bytes) : cache_(cache), limit_bytes_(limit_bytes) {
  for (size_t g = 0; g < cache.num_groups(); ++g) pins_of_block_.emplace_back(cache.pool(g).total_blocks(), 0);
}

PrefixPins::Held* PrefixPins::FindSame(const PrefixMatch& match) {
  const auto is_same = [&](const Held& pin) {
    if (pin.num_tokens != match.num_tokens) return false;
    for (size_t g = 0; g < match.blocks.size(); ++g) {
      if (!std::ranges::equal(pin.leases[g].blocks(), match.blocks[g])) return false;
    }
    return true;
  };
  const auto found = std::ranges::find_if(pins_, is_same);
  return found == pins_.end() ? nullptr : &*found;
}

uint64_t PrefixPins::NewBytes(const PrefixMatch& match) const {
  uint64_t num_bytes = 0;
  for (size_t g = 0; g < match.blocks.size(); ++g) {
    for (const BlockIndex block : match.blocks[g]) {
      if (block != kNoBlock && pins_of_block_[g][block] == 0) num_bytes += cache_.pool(g).layout().block_bytes();
    }
  }
  return num_bytes;
}

Status PrefixPins::Pin(const PrefixMatch& match, uint64_t expires_us) {
  if (match.num_tokens == 0) return Status::Ok();
  if (Held* const same = FindSame(match)) {
    same->expires_us = std::max(same->expires_us, expires_us);
    return Status::Ok();
  }
  const uint64_t new_bytes = NewBytes(match);
  if (new_bytes > limit_bytes_ - num_bytes_ || pins_.size() == kMaxPins) {
    return Status::ResourceExhausted("pins: " + std::to_string(match.num_tokens) + " tokens need " +
                                     std::to_string(new_bytes) + " bytes more; " + std::to_string(num_bytes_) + " of " +
                                     std::to_string(limit_bytes_) + " are taken by " + std::to_string(pins_.size()) +
                                     " pins of at most " + std::to_string(kMaxPins));
  }
  Held pin = {.leases = {}, .num_tokens = match.num_tokens, .expires_us = expires_us};
  for (size_t g = 0; g < match.blocks.size(); ++g) {
    for (const BlockIndex block : match.blocks[g]) {
      if (block != kNoBlock && pins_of_block_[g][block]++ == 0) ++num_blocks_[g];
    }
    pin.leases.push_back(cache_.pool(g).Share(match.blocks[g]));
  }
  num_bytes_ += new_bytes;
  pins_.push_back(std::move(pin));
  return Status::Ok();
}

void PrefixPins::End(const Held& pin) {
  for (size_t g = 0; g < pin.leases.size(); ++g) {
    for (const BlockIndex block : pin.leases[g].blocks()) {
      if (block == kNoBlock || --pins_of_block_[g][block] > 0) continue;
      --num_blocks_[g];
      num_bytes_ -= cache_.pool(g).layout().block_bytes();
    }
  }
}

template <typename Fn>
void PrefixPins::EndIf(Fn fn) {
  std::erase_if(pins_, [&](const Held& pin) {
    if (!fn(pin)) return false;
    End(pin);
    return true;
  });
}

void PrefixPins::Expire(uint64_t now_us) {
  EndIf([&](const Held& pin) { return pin.expires_us <= now_us; });
}

void PrefixPins::EndForgotten() {
  EndIf([&](const Held& pin) {
    for (size_t g = 0; g < pin.leases.size(); ++g) {
      const BlockPool& pool = cache_.pool(g);
      for (const BlockIndex block : pin.leases[g].blocks()) {
        if (block != kNoBlock && !pool.is_kept(block)) return true;
      }
    }
    return false;
  });
}

void PrefixPins::Clear() {
  EndIf([](const Held&) { return true; });
}

}  // namespace kvern
