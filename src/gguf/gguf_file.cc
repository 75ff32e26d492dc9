#include "gguf/gguf_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvern {
namespace {

// The entry with this name, or nullptr. `order` sorts `entries` by name.
template <typename Entry, typename NameOf>
const Entry* FindByName(const std::vector<Entry>& entries, const std::vector<uint32_t>& order, std::string_view name,
                        NameOf name_of) {
  const auto found = std::lower_bound(order.begin(), order.end(), name, [&](uint32_t i, std::string_view wanted) {
    return name_of(entries[i]) < wanted;
  });
  if (found == order.end() || name_of(entries[*found]) != name) return nullptr;
  return &entries[*found];
}

std::string Expecting(uint64_t max) {
  if (max == std::numeric_limits<uint64_t>::max()) return "an integer of at least 0";
  return "an integer from 0 to " + std::to_string(max);
}

}  // namespace

Result<GgufFile> GgufFile::Open(FileSystem& fs, const std::string& path) {
  KVERN_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapping, fs.Map(path));
  return FromMapping(std::move(mapping), path);
}

Result<GgufFile> GgufFile::FromMapping(std::unique_ptr<MappedFile> mapping, std::string path) {
  KVERN_ASSIGN_OR_RETURN(GgufContents contents, ParseGguf(mapping->bytes(), path));
  GgufFile file(std::move(path), std::move(mapping), std::move(contents));
  KVERN_RETURN_IF_ERROR(file.CheckNotSplit());
  return file;
}

Status GgufFile::CheckNotSplit() const {
  KVERN_ASSIGN_OR_RETURN(const uint64_t count, GetUintOr("split.count", 0));
  if (count <= 1) return Status::Ok();
  KVERN_ASSIGN_OR_RETURN(const uint64_t index, GetUintOr("split.no", 0));
  return Status::Unsupported(path_ + ": found part " + std::to_string(index + 1) + " of a model split into " +
                             std::to_string(count) + " files (metadata key 'split.count'), expected the whole model " +
                             "in one file; merge the parts first");
}

const GgufMetadata* GgufFile::FindEntry(std::string_view key) const {
  return FindByName(contents_.metadata, contents_.metadata_by_key, key, [](const GgufMetadata& m) { return m.key; });
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const GgufMetadata* entry = FindEntry(key);
  return entry != nullptr ? &entry->value : nullptr;
}

Result<const GgufMetadata*> GgufFile::Require(std::string_view key, std::string_view expected) const {
  const GgufMetadata* entry = FindEntry(key);
  if (entry != nullptr) return entry;
  return Status::NotFound(path_ + ": metadata key " + QuotedForMessage(key) + " is missing, expected " +
                          std::string(expected));
}

Result<const GgufMetadata*> GgufFile::RequireArray(std::string_view key, std::string_view expected) const {
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, Require(key, expected));
  if (!entry->value.is_array()) return WrongValue(*entry, expected);
  return entry;
}

Status GgufFile::WrongValue(const GgufMetadata& entry, std::string_view expected) const {
  std::string found = entry.value.TypeName();
  if (entry.value.AsString()) {
    found.append(" ").append(QuotedForMessage(*entry.value.AsString()));
  } else if (!entry.value.is_array()) {
    found.append(" ").append(entry.value.ToString());
  }
  return Status::Corruption(path_ + ": at byte " + std::to_string(entry.offset) + ": metadata key " +
                            QuotedForMessage(entry.key) + " is " + found + ", expected " + std::string(expected));
}

Result<uint64_t> GgufFile::UintOf(const GgufMetadata& entry, const GgufValue& value, uint64_t max) const {
  const std::optional<uint64_t> number = value.AsUint();
  if (number && *number <= max) return *number;
  if (!entry.value.is_array()) return WrongValue(entry, Expecting(max));
  return WrongValue(entry, "elements that are each " + Expecting(max) + ", found " + value.ToString());
}

Result<uint64_t> GgufFile::GetUint(std::string_view key, uint64_t max) const {
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, Require(key, Expecting(max)));
  if (entry->value.is_array()) return WrongValue(*entry, Expecting(max));
  return UintOf(*entry, entry->value, max);
}

Result<uint64_t> GgufFile::GetUintOr(std::string_view key, uint64_t fallback, uint64_t max) const {
  return Has(key) ? GetUint(key, max) : Result<uint64_t>(fallback);
}

Result<double> GgufFile::GetFloat(std::string_view key) const {
  constexpr std::string_view kExpected = "a finite number";
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, Require(key, kExpected));
  const std::optional<double> number = entry->value.AsFloat();
  if (!number || !std::isfinite(*number)) return WrongValue(*entry, kExpected);
  return *number;
}

Result<double> GgufFile::GetFloatOr(std::string_view key, double fallback) const {
  return Has(key) ? GetFloat(key) : Result<double>(fallback);
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  constexpr std::string_view kExpected = "a bool";
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, Require(key, kExpected));
  const std::optional<bool> flag = entry->value.AsBool();
  if (!flag) return WrongValue(*entry, kExpected);
  return *flag;
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool fallback) const {
  return Has(key) ? GetBool(key) : Result<bool>(fallback);
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  constexpr std::string_view kExpected = "a string";
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, Require(key, kExpected));
  const std::optional<std::string_view> text = entry->value.AsString();
  if (!text) return WrongValue(*entry, kExpected);
  return *text;
}

Result<std::string_view> GgufFile::GetStringOr(std::string_view key, std::string_view fallback) const {
  return Has(key) ? GetString(key) : Result<std::string_view>(fallback);
}

Result<std::span<const std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of strings";
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, RequireArray(key, kExpected));
  if (entry->value.element_type() != GgufType::kString) return WrongValue(*entry, kExpected);
  return entry->value.strings();
}

Result<std::vector<int64_t>> GgufFile::GetInts(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of integers";
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, RequireArray(key, kExpected));
  if (!IsInteger(entry->value.element_type())) return WrongValue(*entry, kExpected);
  std::vector<int64_t> integers;
  integers.reserve(entry->value.size());
  for (uint64_t i = 0; i < entry->value.size(); ++i) {
    const std::optional<int64_t> integer = entry->value.At(i).AsInt();
    if (!integer) return WrongValue(*entry, "elements below 2^63, found " + entry->value.At(i).ToString());
    integers.push_back(*integer);
  }
  return integers;
}

Result<std::vector<float>> GgufFile::GetFloats(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of f32 or f64";
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, RequireArray(key, kExpected));
  const GgufType type = entry->value.element_type();
  if (type != GgufType::kF32 && type != GgufType::kF64) return WrongValue(*entry, kExpected);
  std::vector<float> floats;
  floats.reserve(entry->value.size());
  for (uint64_t i = 0; i < entry->value.size(); ++i) {
    floats.push_back(static_cast<float>(*entry->value.At(i).AsFloat()));
  }
  return floats;
}

Result<std::vector<uint64_t>> GgufFile::GetUintPerLayer(std::string_view key, uint64_t num_layers, uint64_t max) const {
  const std::string expected = Expecting(max) + ", or an array of " + std::to_string(num_layers) + " of them";
  KVERN_ASSIGN_OR_RETURN(const GgufMetadata* entry, Require(key, expected));
  if (!entry->value.is_array()) {
    KVERN_ASSIGN_OR_RETURN(const uint64_t number, UintOf(*entry, entry->value, max));
    return std::vector<uint64_t>(num_layers, number);
  }
  if (entry->value.size() != num_layers || !IsInteger(entry->value.element_type())) return WrongValue(*entry, expected);
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < num_layers; ++i) {
    KVERN_ASSIGN_OR_RETURN(const uint64_t number, UintOf(*entry, entry->value.At(i), max));
    numbers.push_back(number);
  }
  return numbers;
}

const GgufTensorInfo* GgufFile::FindTensor(std::string_view name) const {
  return FindByName(contents_.tensors, contents_.tensors_by_name, name, [](const GgufTensorInfo& t) { return t.name; });
}

Result<TensorView> GgufFile::Tensor(std::string_view name) const {
  const GgufTensorInfo* info = FindTensor(name);
  if (info == nullptr) return Status::NotFound(path_ + ": tensor " + QuotedForMessage(name) + " is missing");
  const std::optional<DType> dtype = DTypeFromGgmlId(info->ggml_type);
  if (!dtype) {
    return Status::Unsupported(path_ + ": at byte " + std::to_string(info->info_offset) + ": tensor " +
                               QuotedForMessage(name) + " is stored as " + GgmlTypeName(info->ggml_type) +
                               ", expected one of " + SupportedDTypeNames());
  }
  TensorView view;
  view.name = std::string(info->name);
  view.dtype = *dtype;
  view.num_dims = info->num_dims;
  view.dims = info->dims;
  view.data = mapping_->bytes().subspan(info->data_offset, info->num_bytes);
  return view;
}

void GgufFile::Release(const TensorView& tensor) const {
  mapping_->Release(static_cast<size_t>(tensor.data.data() - mapping_->bytes().data()), tensor.data.size());
}

}  // namespace kvern
