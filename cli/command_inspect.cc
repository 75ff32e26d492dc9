// kvern inspect: what a model file holds, and what its cache costs.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/model_path.h"
#include "cli/output.h"
#include "cli/placement_table.h"
#include "kvern/model_info.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern inspect model.gguf --budget 2GiB --budget 16GiB --json\n"
    "  kvern inspect model.gguf --placements --lengths 200,1000,4000 --window 1024 --sinks 4";

constexpr size_t kLongestValue = 100;
constexpr uint64_t kLongestShown = uint64_t{1} << 32;  // Tokens.

// The longest sequence whose keys and values fit `budget_bytes`, in whole blocks; kLongestShown where that is no limit.
uint64_t TokensThatFit(const ModelInfo& info, uint64_t budget_bytes, uint32_t block_size, KvType type) {
  uint64_t fitting = 0, too_many = kLongestShown / block_size + 1;  // Blocks.
  while (fitting + 1 < too_many) {
    const uint64_t middle = fitting + (too_many - fitting) / 2;
    const bool fits = info.KvBytesOfSequence(middle * block_size, block_size, type, type) <= budget_bytes;
    (fits ? fitting : too_many) = middle;
  }
  return fitting * block_size;
}

// "30", or "18: 3 see all, 15 a window of 512".
std::string LayersText(const ModelInfo& info) {
  std::string text = FormatCount(info.num_layers);
  if (std::all_of(info.layer_groups.begin(), info.layer_groups.end(),
                  [](const LayerGroupInfo& group) { return group.window_tokens == 0; })) {
    return text;
  }
  for (size_t i = 0; i < info.layer_groups.size(); ++i) {
    const LayerGroupInfo& group = info.layer_groups[i];
    text += (i == 0 ? ": " : ", ") + FormatCount(group.num_layers) +
            (group.window_tokens == 0 ? " see all" : " a window of " + FormatCount(group.window_tokens));
  }
  return text;
}

std::string RopeText(const ModelInfo& info) {
  std::string text;
  for (const LayerGroupInfo& group : info.layer_groups) {
    text += (text.empty() ? "" : ", ") + FormatFixed(group.rope_base, 0);
  }
  return text;
}

class InspectCommand : public Command {
 public:
  explicit InspectCommand(CLI::App& app) {
    app.add_option("MODEL", model_, "GGUF file; else as for -m")->type_name("");
    app.add_option("-m,--model", flag_model_, "GGUF file; else $KVERN_MODEL, else the only file in models/")
        ->type_name("FILE");
    app.add_option("--budget", budgets_, "What context fits in so many bytes; may be given again")
        ->type_name("BYTES")
        ->allow_extra_args(false);
    app.add_option("--block-size", block_size_, "Tokens per cache block, for --budget")
        ->capture_default_str()
        ->check(CLI::Range(16u, 4096u))
        ->type_name("TOKENS");
    placements_.AddTo(app);
    app.add_flag("--json", is_json_, "One JSON object");
    app.footer(kExamples);
  }

  int Run() override {
    const Result<std::string> path = ChooseModel(model_.empty() ? flag_model_ : model_);
    if (!path.ok()) return FailUsage(path.status());
    for (const std::string& text : budgets_.empty() ? std::vector<std::string>{"256MiB", "1GiB", "4GiB"} : budgets_) {
      const Result<uint64_t> bytes = ParseBytes(text);
      if (!bytes.ok()) return FailUsage(Status::InvalidArgument("--budget: " + bytes.status().message()));
      budget_bytes_.push_back(*bytes);
    }
    if (placements_.is_wanted()) return placements_.Run(*path, block_size_, is_json_);
    const Result<ModelInfo> info = InspectModel(*path);
    if (!info.ok()) return Fail(info.status());
    WriteOut(is_json_ ? Dump(Json(*info)) : Text(*info));
    return kExitDone;
  }

 private:
  std::string Text(const ModelInfo& info) const {
    std::string text = info.path + ": " + FormatBytes(info.file_bytes) + "\n";
    if (!info.is_supported) text += "kvern cannot run it: " + info.unsupported_reason + "\n";
    text += "\nModel\n" + ShapesText(info) + "\nTensors\n" + TensorsText(info);
    if (info.KvBytesPerToken(KvType::kF16, KvType::kF16) != 0) text += "\nKV cache\n" + CacheText(info);
    text += "\nMetadata\n";
    for (const auto& [key, value] : info.metadata) {
      std::string shown = EscapeBytes(value);
      if (shown.size() > 4 * kLongestValue) shown = shown.substr(0, 4 * kLongestValue) + "...";
      text += key + " = " + shown + "\n";
    }
    return text;
  }

  static std::string ShapesText(const ModelInfo& info) {
    return FormatTable({
        {"architecture", info.architecture},
        {"name", info.name.empty() ? "-" : EscapeBytes(info.name)},
        {"parameters", FormatCount(info.num_parameters)},
        {"layers", LayersText(info)},
        {"width", FormatCount(info.width)},
        {"feed-forward width", FormatCount(info.ffn_width)},
        {"query heads", FormatCount(info.num_heads)},
        {"KV heads", FormatCount(info.num_kv_heads)},
        {"head size", FormatCount(info.head_dim)},
        {"vocabulary", FormatCount(info.vocab_size)},
        {"context", FormatCount(info.context_tokens) + " tokens"},
        {"RoPE base", RopeText(info)},
    });
  }

  static std::string TensorsText(const ModelInfo& info) {
    std::vector<std::vector<std::string>> rows = {{"type", "tensors", "bytes", ""}};
    for (const TensorTypeInfo& type : info.tensor_types) {
      rows.push_back({type.type, FormatCount(type.num_tensors), FormatBytes(type.num_bytes),
                      type.is_supported ? "" : "not supported"});
    }
    return FormatTable(rows);
  }

  std::string CacheText(const ModelInfo& info) const {
    std::vector<std::vector<std::string>> rows = {{"stored as", "bytes/token"}};
    for (const uint64_t budget : budget_bytes_) rows[0].push_back("fits in " + FormatBytes(budget));
    for (const KvType type : AllKvTypes()) {
      const uint64_t bytes = info.KvBytesPerToken(type, type);
      if (bytes == 0) continue;  // Not for heads of this size.
      std::vector<std::string> row = {std::string(KvTypeName(type)), FormatCount(bytes)};
      for (const uint64_t budget : budget_bytes_) {
        row.push_back(FormatCount(TokensThatFit(info, budget, block_size_, type)) + " tokens");
      }
      rows.push_back(std::move(row));
    }
    return FormatTable(rows);
  }

  nlohmann::ordered_json Json(const ModelInfo& info) const {
    nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
    for (const TensorTypeInfo& type : info.tensor_types) {
      tensors.push_back({{"type", type.type},
                         {"num_tensors", type.num_tensors},
                         {"num_bytes", type.num_bytes},
                         {"is_supported", type.is_supported}});
    }
    nlohmann::ordered_json codecs = nlohmann::ordered_json::array();
    for (const KvType type : AllKvTypes()) {
      const uint64_t bytes = info.KvBytesPerToken(type, type);
      if (bytes == 0) continue;
      nlohmann::ordered_json fits = nlohmann::ordered_json::array();
      for (const uint64_t budget : budget_bytes_) {
        fits.push_back({{"budget_bytes", budget}, {"tokens", TokensThatFit(info, budget, block_size_, type)}});
      }
      codecs.push_back({{"kv_type", KvTypeName(type)}, {"bytes_per_token", bytes}, {"fits", std::move(fits)}});
    }
    nlohmann::ordered_json groups = nlohmann::ordered_json::array();
    for (const LayerGroupInfo& group : info.layer_groups) {
      groups.push_back(
          {{"num_layers", group.num_layers}, {"window_tokens", group.window_tokens}, {"rope_base", group.rope_base}});
    }
    nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
    for (const auto& [key, value] : info.metadata) metadata[key] = value;
    return {
        {"path", info.path},
        {"file_bytes", info.file_bytes},
        {"architecture", info.architecture},
        {"name", info.name},
        {"is_supported", info.is_supported},
        {"unsupported_reason", info.unsupported_reason},
        {"num_parameters", info.num_parameters},
        {"num_layers", info.num_layers},
        {"width", info.width},
        {"ffn_width", info.ffn_width},
        {"num_heads", info.num_heads},
        {"num_kv_heads", info.num_kv_heads},
        {"head_dim", info.head_dim},
        {"vocab_size", info.vocab_size},
        {"context_tokens", info.context_tokens},
        {"rope_base", info.rope_base},
        {"layer_groups", std::move(groups)},
        {"tensor_types", std::move(tensors)},
        {"block_size", block_size_},
        {"kv", std::move(codecs)},
        {"metadata", std::move(metadata)},
    };
  }

  std::string model_;
  std::string flag_model_;
  std::vector<std::string> budgets_;
  std::vector<uint64_t> budget_bytes_;
  uint32_t block_size_ = CacheOptions().block_size;
  PlacementTable placements_;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeInspectCommand(CLI::App& app) { return std::make_unique<InspectCommand>(app); }

}  // namespace kvern::cli
