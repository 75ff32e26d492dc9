// KVERN_CHECK: an invariant of kvern itself, checked in every build; a failure prints the place and ends the process.
// KVERN_DCHECK: the same in debug and sanitizer builds only. No byte from outside may reach either.
#pragma once

namespace kvern {

// Prints "file:line: check failed: condition" to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);

}  // namespace kvern

#define KVERN_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::kvern::CheckFailed(__FILE__, __LINE__, #condition))

#ifdef NDEBUG
#define KVERN_DCHECK(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#define KVERN_DCHECK(condition) KVERN_CHECK(condition)
#endif
