// FileStamp: whether a file is still the one that was looked at before.
#pragma once

#include <string>

#include "kvern/status.h"

namespace kvern {

// Device, inode, size, time of last write and time of last change in nanoseconds, joined by colons. Every way to change
// the bytes of a file changes one of them, short of setting back the system's clock. kNotFound, kIoError.
Result<std::string> StampOfFile(const std::string& path);

}  // namespace kvern
