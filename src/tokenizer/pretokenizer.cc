#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pretokenizer.h"

#include <pcre2.h>

#include <algorithm>
#include <span>

#include "tokenizer/quoted.h"
#include "tokenizer/utf8.h"
#include "tokenizer/vocab.h"

namespace kvern {
namespace {

// The regular expressions of the model files. `\s` means Unicode white space: Compile() rewrites it.

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S))";
constexpr const char* kLlama3 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The published form says ((?=[\p{L}])([^a-z])) for a letter that is not a-z. A class says the same without a group, so
// that a long run of letters needs no backtracking stack.
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[^\P{L}a-z]*[^\P{L}A-Z]+|[^\r\n\p{L}\p{N}]?[^\P{L}a-z]+[^\P{L}A-Z]*|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepseekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
    R"( ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Cased letters, listed. Escaped: those that Unicode normalisation of this file would change.
constexpr const char* kDeepseekLetters =
    R"(\s?[A-Za-z\x{B5}À-ÖØ-öø-ƺƼ-ƿ\x{1C4}-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-\x{3F5}Ϸ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷ)"
    R"(ᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼ\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-)"
    R"(\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}ⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿ\x{FB00}-)"
    R"(\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr const char* kDeepseekPunctuation = R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}‘-‟\x{3000}-。]+)";
// `\s+$` of the published list, without trying every start inside a run of spaces that ends elsewhere.
constexpr const char* kSpaceAtEnd = R"((?<!\s)\s++\z)";
constexpr const char* kDeepseekCjk = R"([一-龥ࠀ-一가-\x{D7FF}]+)";
constexpr const char* kThreeDigits = R"([0-9][0-9][0-9])";

constexpr const char* kGpt2List[] = {kGpt2};
constexpr const char* kLlama3List[] = {kLlama3};
constexpr const char* kQwen2List[] = {kQwen2};
constexpr const char* kQwen35List[] = {kQwen35};
constexpr const char* kTekkenList[] = {kTekken};
constexpr const char* kSmolLmList[] = {R"(\p{N})", kGpt2};
constexpr const char* kDeepseekLlmList[] = {R"([\r\n])", kDeepseekLetters, kDeepseekPunctuation,
                                            kSpaceAtEnd, kDeepseekCjk,     R"(\p{N}+)"};
constexpr const char* kDeepseekCoderList[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekCjk, R"(\p{N})"};
constexpr const char* kDeepseekV3List[] = {R"(\p{N}{1,3})", R"([一-龥\x{3040}-ゟ゠-\x{30FF}]+)", kDeepseekV3};
constexpr const char* kFalconList[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2, kThreeDigits};
constexpr const char* kDefaultList[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)", kThreeDigits};

struct KnownPreTokenizer {
  std::string_view name;
  std::span<const char* const> expressions;
  bool ignores_merges = false;
  bool adds_bos = false;
};

constexpr bool kIgnoresMerges = true;
constexpr bool kAddsBos = true;

// Sorted by name.
constexpr KnownPreTokenizer kKnown[] = {
    {"a.x-4.0", kGpt2List},
    {"chatglm-bpe", kLlama3List},
    {"codeshell", kSmolLmList},
    {"command-r", kSmolLmList},
    {"dbrx", kLlama3List},
    {"deepseek-coder", kDeepseekCoderList},
    {"deepseek-llm", kDeepseekLlmList},
    {"deepseek-r1-qwen", kQwen2List},
    {"deepseek-v3", kDeepseekV3List},
    {"default", kDefaultList},
    {"exaone", kSmolLmList},
    {"exaone4", kGpt2List},
    {"f2llmv2", kQwen2List},
    {"falcon", kFalconList},
    {"falcon-h1", kLlama3List, kIgnoresMerges, kAddsBos},
    {"falcon3", kLlama3List, kIgnoresMerges, kAddsBos},
    {"gigachat", kGpt2List},
    {"glm4", kLlama3List},
    {"gpt-2", kGpt2List},
    {"granite-docling", kGpt2List},
    {"grok-2", kQwen2List},
    {"hunyuan", kQwen2List},
    {"hunyuan-dense", kDeepseekV3List},
    {"hy_v4", kDeepseekV3List},
    {"jais", kGpt2List},
    {"jina-de", kGpt2List},
    {"jina-es", kGpt2List},
    {"jina-v2-de", kGpt2List},
    {"jina-v2-es", kGpt2List},
    {"jina-v5-nano", kLlama3List, kIgnoresMerges, kAddsBos},
    {"joyai-llm", kDeepseekV3List},
    {"kormo", kQwen2List},
    {"lfm2", kLlama3List, kIgnoresMerges, kAddsBos},
    {"llama-bpe", kLlama3List, kIgnoresMerges, kAddsBos},
    {"llama-v3", kLlama3List, kIgnoresMerges, kAddsBos},
    {"llama3", kLlama3List, kIgnoresMerges, kAddsBos},
    {"megrez", kQwen2List},
    {"mellum", kGpt2List},
    {"mellum2", kSmolLmList},
    {"midm-2.0", kLlama3List, kIgnoresMerges, kAddsBos},
    {"minerva-7b", kSmolLmList},
    {"modern-bert", kGpt2List},
    {"mpt", kGpt2List},
    {"olmo", kGpt2List},
    {"phi-2", kGpt2List},
    {"pixtral", kLlama3List, kIgnoresMerges, kAddsBos},
    {"qwen2", kQwen2List},
    {"qwen35", kQwen35List},
    {"refact", kSmolLmList},
    {"smaug-bpe", kLlama3List},
    {"smollm", kSmolLmList},
    {"solar-open", kQwen2List},
    {"stablelm2", kQwen2List},
    {"starcoder", kSmolLmList},
    {"tekken", kTekkenList, kIgnoresMerges, kAddsBos},
    {"trillion", kGpt2List},
};

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct MatchContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;
using MatchData = std::unique_ptr<pcre2_match_data, MatchDataDeleter>;
using MatchContext = std::unique_ptr<pcre2_match_context, MatchContextDeleter>;

std::string ErrorText(int error) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(error, buffer, sizeof(buffer)) < 0) return "error " + std::to_string(error);
  return reinterpret_cast<const char*>(buffer);
}

// One regular expression, ready to match.
struct Expression {
  Code code;
  bool has_jit = false;  // The system may forbid executable memory; matching then interprets.
};

Result<Expression> Compile(std::string_view source) {
  std::string pattern;
  for (size_t i = 0; i < source.size(); ++i) {
    const std::string_view two = source.substr(i, 2);
    if (two == "\\s" || two == "\\S") {
      pattern += two == "\\s" ? "\\p{White_Space}" : "\\P{White_Space}";
      ++i;
    } else if (two == "\\\\") {
      pattern += two;
      ++i;
    } else {
      pattern += source[i];
    }
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  Expression expression;
  expression.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                      PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr));
  if (expression.code == nullptr) {
    return Status::Unsupported("pre-tokenizer: PCRE2 does not compile '" + pattern + "' at offset " +
                               std::to_string(offset) + ": " + ErrorText(error));
  }
  expression.has_jit = pcre2_jit_compile(expression.code.get(), PCRE2_JIT_COMPLETE) == 0;
  return expression;
}

// What one call of Split needs beside the expressions.
struct Scratch {
  MatchData data{pcre2_match_data_create(1, nullptr)};
  MatchContext context{pcre2_match_context_create(nullptr)};
};

class RegexPreTokenizer final : public PreTokenizer {
 public:
  RegexPreTokenizer(const KnownPreTokenizer& known, std::vector<Expression> expressions)
      : ignores_merges_(known.ignores_merges), adds_bos_(known.adds_bos), expressions_(std::move(expressions)) {}

  Status Split(std::string_view text, std::vector<uint32_t>& ends) const override {
    Scratch scratch;
    if (scratch.data == nullptr || scratch.context == nullptr) {
      return Status::ResourceExhausted("pre-tokenizer: no memory for matching");
    }
    // No input may fail for being long: a failed match would silently be another piece.
    pcre2_set_match_limit(scratch.context.get(), UINT32_MAX);
    pcre2_set_heap_limit(scratch.context.get(), UINT32_MAX);
    pcre2_set_depth_limit(scratch.context.get(), UINT32_MAX);

    ends.clear();
    std::vector<uint32_t> coarse, fine;
    size_t at = 0;
    while (at < text.size()) {
      const size_t well_formed = WellFormedPrefix(text.substr(at));
      if (well_formed > 0) {
        const std::string_view run = text.substr(at, well_formed);
        coarse.assign(1, static_cast<uint32_t>(run.size()));
        for (const Expression& expression : expressions_) {
          fine.clear();
          uint32_t begin = 0;
          for (const uint32_t end : coarse) {
            KVERN_RETURN_IF_ERROR(SplitPiece(expression, run, begin, end, scratch, fine));
            begin = end;
          }
          coarse.swap(fine);
        }
        for (const uint32_t end : coarse) ends.push_back(static_cast<uint32_t>(at) + end);
        at += well_formed;
      }
      const size_t ill_formed_from = at;
      while (at < text.size()) {
        const Utf8Step step = NextUtf8(text.substr(at));
        if (step.kind == Utf8Kind::kCharacter) break;
        at += step.length;
      }
      if (at > ill_formed_from) ends.push_back(static_cast<uint32_t>(at));
    }
    return Status::Ok();
  }

  bool ignores_merges() const override { return ignores_merges_; }
  bool adds_bos() const override { return adds_bos_; }

 private:
  // Appends the ends of the matches in [begin, end) of `run`, and of what lies between them. The expression sees
  // nothing outside of the piece. `run` is well-formed, so checking it again is left out.
  static Status SplitPiece(const Expression& expression, std::string_view run, uint32_t begin, uint32_t end,
                           Scratch& scratch, std::vector<uint32_t>& ends) {
    const auto subject = reinterpret_cast<PCRE2_SPTR>(run.data() + begin);
    const size_t length = end - begin;
    size_t at = 0;
    while (at < length) {
      int matched = 0;
      if (expression.has_jit) {
        matched = pcre2_jit_match(expression.code.get(), subject, length, at, PCRE2_NO_UTF_CHECK, scratch.data.get(),
                                  scratch.context.get());
      }
      if (!expression.has_jit || matched < PCRE2_ERROR_PARTIAL) {
        // Compiled code has a stack of fixed size, the interpreter uses the heap.
        matched = pcre2_match(expression.code.get(), subject, length, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                              scratch.data.get(), scratch.context.get());
      }
      if (matched == PCRE2_ERROR_NOMATCH) break;
      if (matched < 0) {
        return Status::ResourceExhausted("pre-tokenizer: PCRE2 fails on a piece of " + std::to_string(length) +
                                         " bytes: " + ErrorText(matched));
      }
      const PCRE2_SIZE* match = pcre2_get_ovector_pointer(scratch.data.get());
      if (match[1] <= at) {
        return Status::ResourceExhausted("pre-tokenizer: an expression matches nothing");
      }
      if (match[0] > at) ends.push_back(begin + static_cast<uint32_t>(match[0]));
      ends.push_back(begin + static_cast<uint32_t>(match[1]));
      at = match[1];
    }
    if (at < length) ends.push_back(end);
    return Status::Ok();
  }

  bool ignores_merges_;
  bool adds_bos_;
  std::vector<Expression> expressions_;
};

}  // namespace

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::Create(std::string_view name) {
  const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                   [name](const KnownPreTokenizer& candidate) { return candidate.name == name; });
  if (known == std::end(kKnown)) {
    std::string names;
    for (const KnownPreTokenizer& candidate : kKnown) {
      if (!names.empty()) names += ", ";
      names += candidate.name;
    }
    return Status::Unsupported("tokenizer.ggml.pre: unknown pre-tokenizer " + Quoted(name) + ", known are " + names);
  }
  std::vector<Expression> expressions;
  for (const char* source : known->expressions) {
    KVERN_ASSIGN_OR_RETURN(Expression expression, Compile(source));
    expressions.push_back(std::move(expression));
  }
  return std::unique_ptr<PreTokenizer>(std::make_unique<RegexPreTokenizer>(*known, std::move(expressions)));
}

std::vector<std::string> KnownPreTokenizers() {
  std::vector<std::string> names;
  for (const KnownPreTokenizer& known : kKnown) names.emplace_back(known.name);
  return names;
}

}  // namespace kvern
