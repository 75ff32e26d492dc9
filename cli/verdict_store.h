// What was found of lossy codecs, model by model: a small JSON file in the user's cache directory. It also remembers
// the digests of model files by their stamp, so that a large model is read for its digest once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/codec_pair.h"
#include "kvern/quality.h"

namespace kvern::cli {

struct CodecVerdict {
  std::string model_digest;
  std::string codecs;  // NameOf a CodecPair.
  std::string gate;    // Name of the gate that it was held against.
  bool is_passed = false;
  uint64_t num_tokens = 0;
  Estimate kld_mean;
  Estimate same_top;
};

class VerdictStore {
 public:
  // $XDG_CACHE_HOME/kvern/verdicts.json, else ~/.cache/kvern/verdicts.json; "" where neither is set.
  static std::string DefaultPath();

  // What the file at `path` holds. One that is absent is empty; so is one that is damaged, and warning() then says so.
  explicit VerdictStore(std::string path);
  const std::string& warning() const { return warning_; }

  // The digest of the model at `model_path`, remembered in the file. Errors as for ModelDigest; that it could not be
  // remembered is none.
  Result<std::string> DigestOf(const std::string& model_path);
  std::optional<CodecVerdict> Find(const std::string& model_digest, const CodecPair& codecs) const;
  std::vector<CodecVerdict> AllOf(const std::string& model_digest) const;
  // Takes the place of an earlier verdict of the same model and codecs, and is written at once.
  Status Record(CodecVerdict verdict);

 private:
  void Load();
  // Writes a new file beside the old one and renames it, so that a reader never sees half of one.
  Status Save() const;

  std::string path_;
  std::string warning_;
  std::map<std::string, std::string> digests_;  // By stamp.
  std::vector<CodecVerdict> verdicts_;
};

}  // namespace kvern::cli
