// Budget: what one rendering of a template may still use. A template is untrusted, so every node counts a step, every
// value counts its bytes while it lives, and the first limit reached ends the rendering.
#pragma once

#include <cstdint>
#include <string>

#include "kvern/status.h"

namespace kvern::jinja {

class Budget {
 public:
  Budget(uint64_t max_steps, uint64_t max_bytes) : max_steps_(max_steps), max_bytes_(max_bytes) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  void Step(uint64_t num_steps = 1) { steps_ += num_steps; }
  // The work of reading or writing `num_bytes`.
  void Touch(uint64_t num_bytes) { steps_ += num_bytes / 32; }
  // The work of looking at each character of `num_bytes`: of what class it is, or its other case.
  void TouchCharacters(uint64_t num_bytes) { steps_ += num_bytes / 4; }
  void Hold(uint64_t num_bytes) {
    held_bytes_ += num_bytes;
    Touch(num_bytes);
    if (held_bytes_ > max_bytes_) is_memory_spent_ = true;
  }
  void Release(uint64_t num_bytes) { held_bytes_ -= num_bytes; }
  // Whether `num_bytes` more may be made; where not, the rendering is over. Asked before anything whose size the
  // template chooses is allocated.
  bool Fits(uint64_t num_bytes) {
    if (num_bytes > max_bytes_ || held_bytes_ > max_bytes_ - num_bytes) is_memory_spent_ = true;
    return !is_memory_spent_;
  }
  void RefuseNesting() { is_nesting_spent_ = true; }

  bool is_spent() const { return is_memory_spent_ || is_nesting_spent_ || steps_ > max_steps_; }
  // Which limit was reached; Ok where none was.
  Status status() const {
    if (is_memory_spent_) {
      return Status::ResourceExhausted("the values of the template exceed " + std::to_string(max_bytes_) + " bytes");
    }
    if (is_nesting_spent_) return Status::ResourceExhausted("lists and maps are nested too deeply");
    if (steps_ > max_steps_) {
      return Status::ResourceExhausted("the template takes more than " + std::to_string(max_steps_) + " steps");
    }
    return Status::Ok();
  }

 private:
  uint64_t max_steps_, max_bytes_;
  uint64_t steps_ = 0;
  uint64_t held_bytes_ = 0;
  bool is_memory_spent_ = false;
  bool is_nesting_spent_ = false;
};

}  // namespace kvern::jinja
