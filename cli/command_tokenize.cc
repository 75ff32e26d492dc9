// kvern tokenize: text to token ids and pieces, and back.
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/engine_flags.h"
#include "cli/exit_code.h"
#include "cli/format.h"
#include "cli/generation.h"
#include "cli/input.h"
#include "cli/output.h"

namespace kvern::cli {
namespace {

constexpr char kExamples[] =
    "Examples:\n"
    "  kvern tokenize \"The capital of France is\"\n"
    "  cat book.txt | kvern tokenize --ids-only | wc -w\n"
    "\n"
    "One line per token: id, tab, piece (\\n, \\\\ and \\xNN stand for bytes that no line can show).";

class TokenizeCommand : public Command {
 public:
  explicit TokenizeCommand(CLI::App& app) {
    auto* text = app.add_option("TEXT", text_, "Text to cut into tokens; without it, stdin is read")->type_name("");
    app.add_option("-f,--file", file_, "Read the text from a file; - is stdin")->type_name("FILE");
    app.add_flag("--ids-only", ids_only_, "Only the ids, on one line");
    app.add_flag("--no-bos", no_bos_, "Leave out the begin and end tokens that the model asks for");
    app.add_flag("--parse-special", parse_special_, "Text like <|im_start|> counts as a control token");
    app.add_flag("--decode", is_decode_, "The other way round: the text is a list of ids");
    app.add_flag("--json", is_json_, "One JSON object with ids and pieces");
    engine_.AddModelTo(app);
    app.footer(kExamples);
    app.callback([this, text] { has_text_ = text->count() > 0; });
  }

  int Run() override {
    if (has_text_ && !file_.empty()) return FailUsage(Status::InvalidArgument("give either TEXT or --file, not both"));
    const Result<EngineOptions> options = engine_.ToOptions();
    if (!options.ok()) return FailUsage(options.status());
    if (!has_text_) {
      Result<std::string> input = ReadInput(file_.empty() ? "-" : file_);
      if (!input.ok()) return Fail(input.status());
      text_ = std::move(input).value();
    }
    const auto tokenizer = LoadTokenizer(options->model_path);
    if (!tokenizer.ok()) return Fail(tokenizer.status());
    return is_decode_ ? Decode(**tokenizer) : Encode(**tokenizer);
  }

 private:
  int Encode(const Tokenizer& tokenizer) const {
    const auto ids = tokenizer.Encode(text_, {.add_special = !no_bos_, .parse_special = parse_special_});
    if (!ids.ok()) return Fail(ids.status());
    if (is_json_) {
      WriteOut(Dump(EncodedJson(tokenizer, *ids)));
      return kExitDone;
    }
    std::string line;
    for (const TokenId id : *ids) {
      if (ids_only_) {
        line += (line.empty() ? "" : " ") + std::to_string(id);
      } else if (!WriteOut(std::to_string(id) + "\t" + EscapeBytes(tokenizer.TokenBytes(id, true)) + "\n")) {
        break;
      }
    }
    if (ids_only_) WriteOut(line + "\n");
    return kExitDone;
  }

  static nlohmann::ordered_json EncodedJson(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    nlohmann::ordered_json pieces = nlohmann::ordered_json::array();
    for (const TokenId id : ids) pieces.push_back(EscapeBytes(tokenizer.TokenBytes(id, true)));
    return {{"tokenizer", tokenizer.Description()}, {"ids", ids}, {"pieces", std::move(pieces)}};
  }

  int Decode(const Tokenizer& tokenizer) const {
    const auto ids = ParseTokenIds(text_, tokenizer.vocab_size());
    if (!ids.ok()) return Fail(ids.status());
    const std::string text = tokenizer.Decode(*ids, /*render_special=*/true);
    WriteOut(is_json_ ? Dump({{"ids", *ids}, {"text", text}}) : text);
    if (!is_json_ && !ids_only_ && (text.empty() || text.back() != '\n')) WriteOut("\n");
    return kExitDone;
  }

  EngineFlags engine_;
  std::string text_;
  std::string file_;
  bool has_text_ = false;
  bool ids_only_ = false;
  bool no_bos_ = false;
  bool parse_special_ = false;
  bool is_decode_ = false;
  bool is_json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeTokenizeCommand(CLI::App& app) { return std::make_unique<TokenizeCommand>(app); }

}  // namespace kvern::cli
