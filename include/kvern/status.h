// Status and Result<T>: how every fallible call of kvern reports bad input, I/O errors and limits.
// Nothing here throws; a broken invariant of kvern itself is KVERN_CHECK (src/base/check.h), not a Status.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace kvern {

enum class StatusCode : uint8_t {
  kOk,
  kInvalidArgument,    // The caller's options or input cannot be served as given.
  kNotFound,           // A file or name that does not exist.
  kCorruption,         // Bytes that are not what their format says.
  kUnsupported,        // Well-formed, but of a kind that kvern does not have.
  kResourceExhausted,  // A budget, limit or the memory of the machine does not suffice.
  kUnavailable,        // Not now: a queue is full. The same call may succeed later.
  kIoError,            // The operating system refused or failed.
  kCancelled,          // The caller stopped it.
};

// "invalid argument", "not found", ...
std::string_view StatusCodeName(StatusCode code);

// An outcome without a value. The message says where, what was found and what was expected.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Ok() { return Status(); }
  static Status InvalidArgument(std::string m) { return {StatusCode::kInvalidArgument, std::move(m)}; }
  static Status NotFound(std::string m) { return {StatusCode::kNotFound, std::move(m)}; }
  static Status Corruption(std::string m) { return {StatusCode::kCorruption, std::move(m)}; }
  static Status Unsupported(std::string m) { return {StatusCode::kUnsupported, std::move(m)}; }
  static Status ResourceExhausted(std::string m) { return {StatusCode::kResourceExhausted, std::move(m)}; }
  static Status Unavailable(std::string m) { return {StatusCode::kUnavailable, std::move(m)}; }
  static Status IoError(std::string m) { return {StatusCode::kIoError, std::move(m)}; }
  static Status Cancelled(std::string m) { return {StatusCode::kCancelled, std::move(m)}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  // "corruption: model.gguf: ..." for logs and terminals; "ok" when ok.
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT: must not be ok

  bool ok() const { return state_.index() == 0; }
  // The error; Ok where there is a value.
  Status status() const { return ok() ? Status::Ok() : std::get<1>(state_); }

  // The value. Calling these without one is a bug of the caller and ends the process.
  T& value() & { return Checked(), *std::get_if<0>(&state_); }
  const T& value() const& { return Checked(), *std::get_if<0>(&state_); }
  T&& value() && { return Checked(), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void Checked() const {
    if (!ok()) std::abort();
  }
  std::variant<T, Status> state_;
};

}  // namespace kvern

// Returns from the enclosing function when `expr` (a Status) is an error.
#define KVERN_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (::kvern::Status kvern_status = (expr); !kvern_status.ok()) return kvern_status; \
  } while (false)

#define KVERN_CONCAT_INNER(a, b) a##b
#define KVERN_CONCAT(a, b) KVERN_CONCAT_INNER(a, b)
// KVERN_ASSIGN_OR_RETURN(auto x, F()): x is the value of the Result, or the enclosing function returns its Status.
#define KVERN_ASSIGN_OR_RETURN(lhs, expr) KVERN_ASSIGN_OR_RETURN_INNER(KVERN_CONCAT(kvern_result_, __LINE__), lhs, expr)
#define KVERN_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.status();             \
  lhs = std::move(result).value()
