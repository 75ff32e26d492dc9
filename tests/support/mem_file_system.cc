#include "tests/support/mem_file_system.h"

#include <utility>

namespace kvern {

class MemFileSystem::Mapping : public MappedFile {
 public:
  explicit Mapping(std::shared_ptr<const Bytes> bytes) : bytes_(std::move(bytes)) {}
  std::span<const uint8_t> bytes() const override { return *bytes_; }
  void Release(size_t, size_t) override {}

 private:
  std::shared_ptr<const Bytes> bytes_;
};

class MemFileSystem::Writer : public WritableFile {
 public:
  Writer(MemFileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}

  Status Append(std::span<const uint8_t> bytes) override {
    if (is_closed_) return Status::IoError(path_ + ": append to a closed file");
    written_.insert(written_.end(), bytes.begin(), bytes.end());
    fs_.Put(path_, written_);
    return Status::Ok();
  }

  Status Close() override {
    is_closed_ = true;
    return Status::Ok();
  }

 private:
  MemFileSystem& fs_;
  std::string path_;
  Bytes written_;
  bool is_closed_ = false;
};

void MemFileSystem::Put(const std::string& path, std::vector<uint8_t> bytes) {
  auto shared = std::make_shared<const Bytes>(std::move(bytes));
  std::lock_guard lock(mutex_);
  files_[path] = std::move(shared);
}

std::optional<std::vector<uint8_t>> MemFileSystem::Contents(const std::string& path) const {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return std::nullopt;
  return *found->second;
}

Result<std::unique_ptr<MappedFile>> MemFileSystem::Map(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return Status::NotFound(path + ": no such file");
  return std::unique_ptr<MappedFile>(std::make_unique<Mapping>(found->second));
}

Result<std::unique_ptr<WritableFile>> MemFileSystem::Create(const std::string& path) {
  Put(path, {});
  return std::unique_ptr<WritableFile>(std::make_unique<Writer>(*this, path));
}

Result<std::vector<std::string>> MemFileSystem::List(const std::string& directory) {
  const std::string prefix = directory.empty() || directory.back() == '/' ? directory : directory + "/";
  std::vector<std::string> names;
  std::lock_guard lock(mutex_);
  for (const auto& [path, bytes] : files_) {
    if (path.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string name = path.substr(prefix.size());
    if (name.find('/') == std::string::npos) names.push_back(name);
  }
  return names;
}

Status MemFileSystem::Remove(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (files_.erase(path) == 0) return Status::NotFound(path + ": no such file");
  return Status::Ok();
}

class FaultFileSystem::Writer : public WritableFile {
 public:
  Writer(FaultFileSystem& fs, std::string path, std::unique_ptr<WritableFile> base)
      : fs_(fs), path_(std::move(path)), base_(std::move(base)) {}

  Status Append(std::span<const uint8_t> bytes) override {
    KVERN_RETURN_IF_ERROR(fs_.NextCall(path_));
    return base_->Append(bytes);
  }

  Status Close() override {
    KVERN_RETURN_IF_ERROR(fs_.NextCall(path_));
    return base_->Close();
  }

 private:
  FaultFileSystem& fs_;
  std::string path_;
  std::unique_ptr<WritableFile> base_;
};

Status FaultFileSystem::NextCall(const std::string& path) {
  std::lock_guard lock(mutex_);
  if (num_calls_++ < first_failing_call_) return Status::Ok();
  return Status::IoError(path + ": injected fault");
}

Result<std::unique_ptr<MappedFile>> FaultFileSystem::Map(const std::string& path) {
  KVERN_RETURN_IF_ERROR(NextCall(path));
  return base_.Map(path);
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::Create(const std::string& path) {
  KVERN_RETURN_IF_ERROR(NextCall(path));
  KVERN_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.Create(path));
  return std::unique_ptr<WritableFile>(std::make_unique<Writer>(*this, path, std::move(file)));
}

Result<std::vector<std::string>> FaultFileSystem::List(const std::string& directory) {
  KVERN_RETURN_IF_ERROR(NextCall(directory));
  return base_.List(directory);
}

Status FaultFileSystem::Remove(const std::string& path) {
  KVERN_RETURN_IF_ERROR(NextCall(path));
  return base_.Remove(path);
}

}  // namespace kvern
