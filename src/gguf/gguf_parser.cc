#include "gguf/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>

#include "base/byte_reader.h"
#include "base/checked_math.h"
#include "tensor/ggml_types.h"

namespace kvern {
namespace {

constexpr uint64_t kHeaderBytes = 24;
// The fewest bytes that an entry can take: what is left in the file bounds how many there can be.
constexpr uint64_t kMinMetadataBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorInfoBytes = 8 + 1 + 4 + 4 + 8;
constexpr uint64_t kMinStringBytes = 8;
constexpr uint64_t kMinArrayBytes = 4 + 8;

std::string Text(uint64_t number) { return std::to_string(number); }

std::string_view AsText(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Parser {
 public:
  Parser(std::span<const uint8_t> bytes, const std::string& path) : bytes_(bytes), path_(path), reader_(bytes) {}

  Result<GgufContents> Parse() {
    KVERN_RETURN_IF_ERROR(ReadHeader());
    KVERN_RETURN_IF_ERROR(ReadMetadata());
    KVERN_RETURN_IF_ERROR(ReadAlignment());
    KVERN_RETURN_IF_ERROR(ReadTensorInfos());
    KVERN_RETURN_IF_ERROR(LocateTensors());
    return std::move(contents_);
  }

 private:
  Status Error(StatusCode code, uint64_t offset, const std::string& message) const {
    return Status(code, path_ + ": at byte " + Text(offset) + ": " + message);
  }
  Status Corrupt(uint64_t offset, const std::string& message) const {
    return Error(StatusCode::kCorruption, offset, message);
  }
  Status Truncated(const std::string& what, uint64_t expected_bytes) const {
    return Corrupt(reader_.offset(), "the file ends inside " + what + ": expected " + Text(expected_bytes) +
                                         " more bytes, found " + Text(reader_.remaining()));
  }

  template <typename T>
  Status Read(const std::string& what, T& value) {
    const std::optional<T> read = reader_.Read<T>();
    if (!read) return Truncated(what, sizeof(T));
    value = *read;
    return Status::Ok();
  }

  Status ReadHeader() {
    if (bytes_.empty()) return Status::Corruption(path_ + ": the file is empty, expected a GGUF model");
    const std::string_view magic = AsText(bytes_.first(std::min<size_t>(bytes_.size(), 4)));
    if (magic != std::string_view("GGUF").substr(0, magic.size())) {
      return Corrupt(0, "not a GGUF file: found " + QuotedForMessage(magic) + ", expected 'GGUF'");
    }
    if (bytes_.size() < kHeaderBytes) {
      return Corrupt(bytes_.size(), "the file ends inside the header: found " + Text(bytes_.size()) +
                                        " bytes, expected at least " + Text(kHeaderBytes));
    }
    reader_.Take(4);
    contents_.version = *reader_.Read<uint32_t>();
    if (contents_.version != 2 && contents_.version != 3) return UnsupportedVersion();
    num_tensors_ = *reader_.Read<uint64_t>();
    num_metadata_ = *reader_.Read<uint64_t>();
    KVERN_RETURN_IF_ERROR(CheckCount(8, "tensors", num_tensors_, GgufLimits::kMaxTensors, kMinTensorInfoBytes));
    return CheckCount(16, "metadata entries", num_metadata_, GgufLimits::kMaxMetadata, kMinMetadataBytes);
  }

  Status UnsupportedVersion() const {
    const uint32_t version = contents_.version;
    if ((version & 0xffffu) == 0 && version != 0) {
      return Error(StatusCode::kUnsupported, 4,
                   "this is a big-endian GGUF file (version bytes reversed); expected a little-endian one");
    }
    return Error(StatusCode::kUnsupported, 4, "found GGUF version " + Text(version) + ", expected 2 or 3");
  }

  // `count` things of at least `min_bytes` each, said to follow.
  Status CheckCount(uint64_t offset, const std::string& what, uint64_t count, uint64_t limit,
                    uint64_t min_bytes) const {
    const uint64_t room = reader_.remaining() / min_bytes;
    if (count <= std::min(limit, room)) return Status::Ok();
    return Corrupt(offset,
                   "found a count of " + Text(count) + " " + what + ", expected at most " +
                       (room < limit ? Text(room) + ", which is what the rest of the file has room for" : Text(limit)));
  }

  Status ReadString(const std::string& what, uint64_t max_bytes, std::string_view& text) {
    const uint64_t offset = reader_.offset();
    uint64_t length = 0;
    KVERN_RETURN_IF_ERROR(Read("the length of " + what, length));
    if (length > max_bytes) {
      return Corrupt(offset, what + " has " + Text(length) + " bytes, expected at most " + Text(max_bytes));
    }
    const auto taken = reader_.Take(length);
    if (!taken) return Truncated(what, length);
    text = AsText(*taken);
    return Status::Ok();
  }

  Status ReadMetadata() {
    contents_.metadata.reserve(num_metadata_);
    for (uint64_t i = 0; i < num_metadata_; ++i) {
      GgufMetadata entry;
      entry.offset = reader_.offset();
      KVERN_RETURN_IF_ERROR(ReadString("metadata key " + Text(i), GgufLimits::kMaxKeyBytes, entry.key));
      if (entry.key.empty()) return Corrupt(entry.offset, "metadata key " + Text(i) + " is empty, expected a name");
      what_ = "the value of metadata key " + QuotedForMessage(entry.key);
      GgufType type;
      KVERN_RETURN_IF_ERROR(ReadType(type));
      KVERN_RETURN_IF_ERROR(ReadValue(type, /*depth=*/0, entry.value));
      contents_.metadata.push_back(std::move(entry));
    }
    return IndexByName(
        contents_.metadata, [](const GgufMetadata& m) { return m.key; }, [](const GgufMetadata& m) { return m.offset; },
        "metadata key", contents_.metadata_by_key);
  }

  Status ReadType(GgufType& type) {
    const uint64_t offset = reader_.offset();
    uint32_t id = 0;
    KVERN_RETURN_IF_ERROR(Read("the type of " + what_, id));
    if (id >= kNumGgufTypes) {
      return Corrupt(offset, what_ + " has type " + Text(id) + ", expected 0 to " + Text(kNumGgufTypes - 1));
    }
    type = static_cast<GgufType>(id);
    return Status::Ok();
  }

  // `depth`: how many arrays this value lies in.
  Status ReadValue(GgufType type, uint32_t depth, GgufValue& value) {
    if (type == GgufType::kArray) return ReadArray(depth, value);
    if (type == GgufType::kString) {
      std::string_view text;
      KVERN_RETURN_IF_ERROR(ReadString(what_, GgufLimits::kMaxStringBytes, text));
      value = GgufValue::String(text);
      return Status::Ok();
    }
    const size_t num_bytes = GgufScalarBytes(type);
    const uint64_t offset = reader_.offset();
    const auto taken = reader_.Take(num_bytes);
    if (!taken) return Truncated(what_, num_bytes);
    if (type == GgufType::kBool) KVERN_RETURN_IF_ERROR(CheckBools(offset, *taken));
    value = GgufValue::Scalar(type, taken->data());
    return Status::Ok();
  }

  Status CheckBools(uint64_t offset, std::span<const uint8_t> bytes) const {
    const auto bad = std::find_if(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte > 1; });
    if (bad == bytes.end()) return Status::Ok();
    return Corrupt(offset + static_cast<uint64_t>(bad - bytes.begin()),
                   what_ + " is a bool of " + Text(*bad) + ", expected 0 or 1");
  }

  Status ReadArray(uint32_t depth, GgufValue& value) {
    if (depth >= GgufLimits::kMaxArrayDepth) {
      return Corrupt(reader_.offset(), what_ + " has arrays inside arrays deeper than expected (at most " +
                                           Text(GgufLimits::kMaxArrayDepth) + ")");
    }
    GgufType element_type;
    KVERN_RETURN_IF_ERROR(ReadType(element_type));
    const uint64_t count_offset = reader_.offset();
    uint64_t count = 0;
    KVERN_RETURN_IF_ERROR(Read("the length of " + what_, count));
    if (element_type == GgufType::kString) return ReadStringArray(count_offset, count, value);
    if (element_type == GgufType::kArray) return ReadNestedArray(count_offset, count, depth, value);

    const size_t element_bytes = GgufScalarBytes(element_type);
    KVERN_RETURN_IF_ERROR(CheckElementCount(count_offset, element_type, count, element_bytes));
    const uint64_t offset = reader_.offset();
    const auto taken = reader_.Take(count * element_bytes);
    if (element_type == GgufType::kBool) KVERN_RETURN_IF_ERROR(CheckBools(offset, *taken));
    value = GgufValue::ScalarArray(element_type, *taken);
    return Status::Ok();
  }

  Status CheckElementCount(uint64_t offset, GgufType element_type, uint64_t count, uint64_t min_bytes) const {
    return CheckCount(offset, std::string(GgufTypeName(element_type)) + " elements in " + what_, count,
                      std::numeric_limits<uint64_t>::max(), min_bytes);
  }

  // A vocabulary: the longest part of most files' metadata, so no text is built unless something is wrong.
  Status ReadStringArray(uint64_t count_offset, uint64_t count, GgufValue& value) {
    KVERN_RETURN_IF_ERROR(CheckElementCount(count_offset, GgufType::kString, count, kMinStringBytes));
    std::vector<std::string_view> strings;
    strings.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t offset = reader_.offset();
      const auto length = reader_.Read<uint64_t>();
      if (!length) return Truncated("the length of string " + Text(i) + " of " + what_, sizeof(uint64_t));
      if (*length > GgufLimits::kMaxStringBytes) {
        return Corrupt(offset, "string " + Text(i) + " of " + what_ + " has " + Text(*length) +
                                   " bytes, expected at most " + Text(GgufLimits::kMaxStringBytes));
      }
      const auto taken = reader_.Take(*length);
      if (!taken) return Truncated("string " + Text(i) + " of " + what_, *length);
      strings.push_back(AsText(*taken));
    }
    value = GgufValue::StringArray(std::move(strings));
    return Status::Ok();
  }

  Status ReadNestedArray(uint64_t count_offset, uint64_t count, uint32_t depth, GgufValue& value) {
    KVERN_RETURN_IF_ERROR(CheckElementCount(count_offset, GgufType::kArray, count, kMinArrayBytes));
    // Grows with what is really there: `count` reserved at every depth would be many times the file.
    std::vector<GgufValue> arrays;
    for (uint64_t i = 0; i < count; ++i) {
      GgufValue array;
      KVERN_RETURN_IF_ERROR(ReadArray(depth + 1, array));
      arrays.push_back(std::move(array));
    }
    value = GgufValue::NestedArray(std::move(arrays));
    return Status::Ok();
  }

  Status ReadAlignment() {
    for (const GgufMetadata& entry : contents_.metadata) {
      if (entry.key != "general.alignment") continue;
      const std::optional<uint64_t> alignment = entry.value.AsUint();
      if (!alignment || !std::has_single_bit(*alignment) || *alignment < GgufLimits::kMinAlignment ||
          *alignment > GgufLimits::kMaxAlignment) {
        return Corrupt(entry.offset, "general.alignment is " + entry.value.ToString() +
                                         ", expected a power of two from " + Text(GgufLimits::kMinAlignment) + " to " +
                                         Text(GgufLimits::kMaxAlignment));
      }
      contents_.alignment = *alignment;
    }
    return Status::Ok();
  }

  Status ReadTensorInfos() {
    KVERN_RETURN_IF_ERROR(CheckCount(8, "tensors", num_tensors_, GgufLimits::kMaxTensors, kMinTensorInfoBytes));
    contents_.tensors.reserve(num_tensors_);
    for (uint64_t i = 0; i < num_tensors_; ++i) {
      GgufTensorInfo info;
      KVERN_RETURN_IF_ERROR(ReadTensorInfo(i, info));
      contents_.tensors.push_back(info);
    }
    return IndexByName(
        contents_.tensors, [](const GgufTensorInfo& t) { return t.name; },
        [](const GgufTensorInfo& t) { return t.info_offset; }, "tensor", contents_.tensors_by_name);
  }

  // Leaves data_offset relative to the start of the tensor data, which is known only after the last entry.
  Status ReadTensorInfo(uint64_t i, GgufTensorInfo& info) {
    info.info_offset = reader_.offset();
    KVERN_RETURN_IF_ERROR(ReadString("the name of tensor " + Text(i), GgufLimits::kMaxTensorNameBytes, info.name));
    if (info.name.empty()) return Corrupt(info.info_offset, "tensor " + Text(i) + " has an empty name");
    const std::string who = "tensor " + QuotedForMessage(info.name);
    const uint64_t dims_offset = reader_.offset();
    KVERN_RETURN_IF_ERROR(Read("the number of dimensions of " + who, info.num_dims));
    if (info.num_dims > GgufLimits::kMaxDims) {
      return Corrupt(dims_offset, who + " has " + Text(info.num_dims) + " dimensions, expected at most " +
                                      Text(GgufLimits::kMaxDims));
    }
    std::optional<uint64_t> num_elements = 1;
    for (uint32_t d = 0; d < info.num_dims; ++d) {
      KVERN_RETURN_IF_ERROR(Read("dimension " + Text(d) + " of " + who, info.dims[d]));
      if (info.dims[d] == 0) {
        return Corrupt(reader_.offset() - 8, who + " has a dimension " + Text(d) + " of 0, expected at least 1");
      }
      if (num_elements) num_elements = CheckedMul(*num_elements, info.dims[d]);
    }
    if (!num_elements) {
      return Corrupt(dims_offset, who + " has dimensions whose product overflows 64 bits");
    }
    const uint64_t type_offset = reader_.offset();
    KVERN_RETURN_IF_ERROR(Read("the type of " + who, info.ggml_type));
    KVERN_RETURN_IF_ERROR(Read("the offset of " + who, info.data_offset));
    if (info.data_offset % contents_.alignment != 0) {
      return Corrupt(reader_.offset() - 8, who + " has data offset " + Text(info.data_offset) +
                                               ", expected a multiple of the alignment " + Text(contents_.alignment));
    }
    return SizeTensor(who, dims_offset, type_offset, info);
  }

  Status SizeTensor(const std::string& who, uint64_t dims_offset, uint64_t type_offset, GgufTensorInfo& info) const {
    const GgmlType* type = FindGgmlType(info.ggml_type);
    if (type == nullptr || type->block_elements == 0) return Status::Ok();
    if (info.dims[0] % type->block_elements != 0) {
      return Corrupt(dims_offset, who + " has rows of " + Text(info.dims[0]) + " elements, expected a multiple of " +
                                      Text(type->block_elements) + ", the block of " + std::string(type->name));
    }
    const auto num_bytes = CheckedMul(info.num_elements() / type->block_elements, type->block_bytes);
    if (!num_bytes) return Corrupt(type_offset, who + " has a size that overflows 64 bits");
    info.num_bytes = *num_bytes;
    return Status::Ok();
  }

  Status LocateTensors() {
    contents_.data_offset = RoundUp(reader_.offset(), contents_.alignment);
    const uint64_t file_bytes = bytes_.size();
    for (GgufTensorInfo& info : contents_.tensors) {
      const auto begin = CheckedAdd(contents_.data_offset, info.data_offset);
      const auto end = begin ? CheckedAdd(*begin, info.num_bytes) : std::nullopt;
      if (!end || *end > file_bytes) {
        return Corrupt(info.info_offset, "tensor " + QuotedForMessage(info.name) + " has " + Text(info.num_bytes) +
                                             " bytes at data offset " + Text(info.data_offset) +
                                             ", expected an end inside the file (data begins at byte " +
                                             Text(contents_.data_offset) + ", the file has " + Text(file_bytes) +
                                             " bytes)");
      }
      info.data_offset = *begin;
    }
    return CheckOverlaps();
  }

  Status CheckOverlaps() const {
    const std::vector<GgufTensorInfo>& tensors = contents_.tensors;
    std::vector<uint32_t> by_offset(tensors.size());
    std::iota(by_offset.begin(), by_offset.end(), 0u);
    std::stable_sort(by_offset.begin(), by_offset.end(),
                     [&](uint32_t a, uint32_t b) { return tensors[a].data_offset < tensors[b].data_offset; });
    const GgufTensorInfo* furthest = nullptr;
    for (const uint32_t i : by_offset) {
      const GgufTensorInfo& info = tensors[i];
      if (furthest != nullptr && info.data_offset < furthest->data_offset + furthest->num_bytes) {
        return Corrupt(info.info_offset, "tensor " + QuotedForMessage(info.name) + " begins at byte " +
                                             Text(info.data_offset) + ", inside the data of tensor " +
                                             QuotedForMessage(furthest->name) + ", which ends at byte " +
                                             Text(furthest->data_offset + furthest->num_bytes) +
                                             "; expected tensors that do not overlap");
      }
      furthest = &info;
    }
    return Status::Ok();
  }

  // Fills `order` with the indices of `entries` sorted by name; two equal names are an error.
  template <typename Entry, typename NameOf, typename OffsetOf>
  Status IndexByName(const std::vector<Entry>& entries, NameOf name_of, OffsetOf offset_of, const std::string& what,
                     std::vector<uint32_t>& order) const {
    order.resize(entries.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return name_of(entries[a]) < name_of(entries[b]); });
    for (size_t i = 1; i < order.size(); ++i) {
      const Entry& first = entries[order[i - 1]];
      const Entry& second = entries[order[i]];
      if (name_of(first) != name_of(second)) continue;
      return Corrupt(offset_of(second), what + " " + QuotedForMessage(name_of(second)) +
                                            " occurs twice, expected once (first at byte " + Text(offset_of(first)) +
                                            ")");
    }
    return Status::Ok();
  }

  std::span<const uint8_t> bytes_;
  const std::string& path_;
  ByteReader reader_;
  uint64_t num_tensors_ = 0;
  uint64_t num_metadata_ = 0;
  std::string what_;  // The value being read, for messages.
  GgufContents contents_;
};

}  // namespace

Result<GgufContents> ParseGguf(std::span<const uint8_t> bytes, const std::string& path) {
  return Parser(bytes, path).Parse();
}

}  // namespace kvern
