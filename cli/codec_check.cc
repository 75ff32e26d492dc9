#include "cli/codec_check.h"

#include <cstdio>
#include <optional>

#include "cli/codec_pair.h"
#include "cli/format.h"
#include "cli/quality_report.h"
#include "cli/verdict_store.h"
#include "kvern/quality.h"

namespace kvern::cli {

std::string VerdictsPath(const LossyFlags& flags) {
  return flags.verdicts_path.empty() ? VerdictStore::DefaultPath() : flags.verdicts_path;
}

Status CheckCodecs(const EngineOptions& options, const LossyFlags& flags) {
  const CodecPair codecs = {options.cache.k_type, options.cache.v_type};
  if (!options.cache.is_enabled || !NeedsVerdict(codecs.k, codecs.v)) return Status::Ok();
  VerdictStore store(VerdictsPath(flags));
  if (!store.warning().empty()) std::fprintf(stderr, "kvern: %s\n", store.warning().c_str());
  const Result<std::string> digest = store.DigestOf(options.model_path);
  if (!digest.ok()) return Status::Ok();  // What is wrong with the file is for those to say who load it.
  const std::string name = NameOf(codecs);
  const auto verdict = store.Find(*digest, codecs);
  if (!verdict) {
    std::fprintf(stderr,
                 "kvern: %s keys and values lose precision, and this model has no verdict on them yet: "
                 "kvern quality %s\n",
                 name.c_str(), name.c_str());
    return Status::Ok();
  }
  if (verdict->is_passed) return Status::Ok();
  const std::string found = name + " keys and values failed the " + verdict->gate + " gate on this model: KLD " +
                            FormatSmall(verdict->kld_mean.value) + ", same top " +
                            FormatPercent(verdict->same_top.value) + " over " + FormatCount(verdict->num_tokens) +
                            " tokens";
  if (!flags.is_allowed) {
    return Status::Unsupported(found + ". Choose a wider type (kvern quality lists what passes) or run anyway with " +
                               "--allow-lossy");
  }
  std::fprintf(stderr, "kvern: %s; running anyway\n", found.c_str());
  return Status::Ok();
}

}  // namespace kvern::cli
