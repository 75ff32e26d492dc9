// Which model a file holds, whatever its name: for results that are kept and must not be mistaken for another model's.
#pragma once

#include <string>

#include "kvern/status.h"

namespace kvern {

// 64 hexadecimal digits: SHA-256 over the digest of the file's header (metadata with tokenizer, tensor names and
// shapes) and the digest of each tensor's bytes. Reads the whole file on all usable CPUs. Errors as for InspectModel.
Result<std::string> ModelDigest(const std::string& path);

// Device, inode, size and times of last change, as text: while it stays the same, so does the digest. Costs nothing.
Result<std::string> FileStamp(const std::string& path);

}  // namespace kvern
