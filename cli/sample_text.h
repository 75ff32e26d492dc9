// The text that measurements read when the user gives none.
#pragma once

#include <string>
#include <vector>

#include "kvern/status.h"
#include "kvern/tokenizer.h"

namespace kvern::cli {

// Of the Debian package debian-faq: 180 kB of English.
inline constexpr char kSampleTextPath[] = "/usr/share/doc/debian/FAQ/debian-faq.en.txt.gz";

// The bytes of `path`, unpacked where it is a gzip file; "-" is stdin; "" is the sample text, whose absence the message
// says how to mend. kNotFound, kIoError, kCorruption for a damaged gzip file.
Result<std::string> ReadSampleText(const std::string& path);

// The first `count` tokens of the text at `path` for the model at `model_path`. kInvalidArgument where it has fewer
// than `min_count`.
Result<std::vector<TokenId>> SampleTokens(const std::string& path, const std::string& model_path, size_t min_count,
                                          size_t count);

}  // namespace kvern::cli
