#include "cli/verdict_store.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "cli/generation.h"
#include "kvern/model_digest.h"

namespace kvern::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr uintmax_t kMaxFileBytes = 4u << 20;
constexpr size_t kMaxDigests = 256;
constexpr size_t kDigestDigits = 64;

bool IsDigest(const std::string& text) {
  return text.size() == kDigestDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Json ToJson(const CodecVerdict& verdict) {
  return {{"model", verdict.model_digest},
          {"codecs", verdict.codecs},
          {"gate", verdict.gate},
          {"is_passed", verdict.is_passed},
          {"tokens", verdict.num_tokens},
          {"kld", verdict.kld_mean.value},
          {"kld_error", verdict.kld_mean.error},
          {"same_top", verdict.same_top.value},
          {"same_top_error", verdict.same_top.error}};
}

// A divergence that was infinite is null in the file.
double NumberIn(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_number() ? it->get<double>() : HUGE_VAL;
}

std::string TextIn(const Json& json, const char* key) {
  const auto it = json.find(key);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

std::optional<CodecVerdict> VerdictFrom(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  CodecVerdict verdict;
  verdict.model_digest = TextIn(json, "model");
  verdict.codecs = TextIn(json, "codecs");
  verdict.gate = TextIn(json, "gate");
  const auto is_passed = json.find("is_passed");
  const auto tokens = json.find("tokens");
  if (!IsDigest(verdict.model_digest) || verdict.codecs.empty() || is_passed == json.end() ||
      !is_passed->is_boolean() || tokens == json.end() || !tokens->is_number_unsigned()) {
    return std::nullopt;
  }
  verdict.is_passed = is_passed->get<bool>();
  verdict.num_tokens = tokens->get<uint64_t>();
  verdict.kld_mean = {NumberIn(json, "kld"), NumberIn(json, "kld_error")};
  verdict.same_top = {NumberIn(json, "same_top"), NumberIn(json, "same_top_error")};
  return verdict;
}

}  // namespace

std::string VerdictStore::DefaultPath() {
  const auto from = [](const char* variable) -> std::string {
    const char* const value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  if (const std::string cache = from("XDG_CACHE_HOME"); !cache.empty()) return cache + "/kvern/verdicts.json";
  if (const std::string home = from("HOME"); !home.empty()) return home + "/.cache/kvern/verdicts.json";
  return "";
}

VerdictStore::VerdictStore(std::string path) : path_(std::move(path)) { Load(); }

void VerdictStore::Load() {
  std::error_code error;
  const uintmax_t size = path_.empty() ? 0 : std::filesystem::file_size(path_, error);
  if (error || size == 0) return;
  const auto is_damaged = [&](const std::string& why) {
    warning_ = path_ + " is no list of verdicts (" + why + "): it is passed over, and replaced by the next verdict";
  };
  if (size > kMaxFileBytes) return is_damaged("larger than " + std::to_string(kMaxFileBytes) + " bytes");
  std::ifstream file(path_, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const Json json = Json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return is_damaged("not a JSON object");
  if (const auto format = json.find("format"); format == json.end() || *format != kFormat) {
    return is_damaged("not of format " + std::to_string(kFormat));
  }
  if (const auto digests = json.find("digests"); digests != json.end() && digests->is_object()) {
    for (const auto& [stamp, digest] : digests->items()) {
      if (digest.is_string() && IsDigest(digest.get<std::string>())) digests_[stamp] = digest.get<std::string>();
    }
  }
  // Verdicts of other numerics are of other codecs.
  if (const auto numerics = json.find("numerics"); numerics == json.end() || *numerics != NumericsVersion()) return;
  if (const auto verdicts = json.find("verdicts"); verdicts != json.end() && verdicts->is_array()) {
    for (const Json& item : *verdicts) {
      if (std::optional<CodecVerdict> verdict = VerdictFrom(item)) verdicts_.push_back(*std::move(verdict));
    }
  }
}

Status VerdictStore::Save() const {
  if (path_.empty()) return Status::NotFound("there is no place for verdicts: set HOME or give --verdicts FILE");
  Json verdicts = Json::array();
  for (const CodecVerdict& verdict : verdicts_) verdicts.push_back(ToJson(verdict));
  const Json json = {
      {"format", kFormat}, {"numerics", NumericsVersion()}, {"digests", digests_}, {"verdicts", std::move(verdicts)}};
  std::error_code error;
  const std::filesystem::path path(path_);
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), error);
  const std::string temporary = path_ + "." + std::to_string(::getpid()) + ".new";
  {
    std::ofstream file(temporary, std::ios::binary);
    file << Dump(json);
    file.close();
    if (!file) {
      const std::string message = temporary + " cannot be written: " + std::strerror(errno);
      std::filesystem::remove(temporary, error);
      return Status::IoError(message);
    }
  }
  std::filesystem::rename(temporary, path, error);
  if (!error) return Status::Ok();
  const Status status = Status::IoError(path_ + " cannot be replaced: " + error.message());
  std::filesystem::remove(temporary, error);
  return status;
}

Result<std::string> VerdictStore::DigestOf(const std::string& model_path) {
  KVERN_ASSIGN_OR_RETURN(const std::string stamp, FileStamp(model_path));
  if (const auto it = digests_.find(stamp); it != digests_.end()) return it->second;
  KVERN_ASSIGN_OR_RETURN(const std::string digest, ModelDigest(model_path));
  if (digests_.size() >= kMaxDigests) digests_.clear();
  digests_[stamp] = digest;
  if (!path_.empty() && warning_.empty()) (void)Save();
  return digest;
}

std::optional<CodecVerdict> VerdictStore::Find(const std::string& model_digest, const CodecPair& codecs) const {
  const auto it = std::ranges::find_if(verdicts_, [&](const CodecVerdict& verdict) {
    return verdict.model_digest == model_digest && verdict.codecs == NameOf(codecs);
  });
  return it == verdicts_.end() ? std::nullopt : std::optional(*it);
}

std::vector<CodecVerdict> VerdictStore::AllOf(const std::string& model_digest) const {
  std::vector<CodecVerdict> found;
  std::ranges::copy_if(verdicts_, std::back_inserter(found),
                       [&](const CodecVerdict& verdict) { return verdict.model_digest == model_digest; });
  return found;
}

Status VerdictStore::Record(CodecVerdict verdict) {
  std::erase_if(verdicts_, [&](const CodecVerdict& old) {
    return old.model_digest == verdict.model_digest && old.codecs == verdict.codecs;
  });
  verdicts_.push_back(std::move(verdict));
  return Save();
}

}  // namespace kvern::cli
