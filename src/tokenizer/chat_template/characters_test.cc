#include "tokenizer/chat_template/characters.h"

#include <gtest/gtest.h>

#include "tokenizer/chat_template/python_text.h"

namespace kvern::jinja {
namespace {

TEST(CharactersTest, CharactersAreCountedAndFoundByTheirNumber) {
  EXPECT_EQ(CountCharacters("aé😀"), 3u);
  EXPECT_EQ(OffsetOfCharacter("aé😀b", 2), 3u);
  EXPECT_EQ(OffsetOfCharacter("aé", 9), 3u);
  EXPECT_EQ(CountCharacters("\xFF\xC3"), 2u) << "ill-formed bytes are characters of their own";
}

TEST(CharactersTest, CodePointsAndTheirBytesAreInverse) {
  for (const char32_t code : {0x41u, 0xE9u, 0x20ACu, 0x1F600u, 0x10FFFFu}) {
    EXPECT_EQ(FirstCharacter(Utf8(code)).code, code);
  }
}

TEST(CharactersTest, WhiteSpaceOfUnicodeIsStripped) {
  EXPECT_EQ(StripStart("\u3000\u00a0\n a "), "a ");
  EXPECT_EQ(StripEnd(" a\t\u2003\x1f"), " a");
  EXPECT_EQ(StripEnd("\x85"), "\x85") << "a lone byte is no white space";
}

TEST(CharactersTest, StrippingASetTakesWholeCharacters) {
  EXPECT_EQ(StripStart("ééa", "é"), "a");
  EXPECT_EQ(StripEnd("aè", "é"), "aè") << "both end in another byte, but begin with the same";
}

TEST(CharactersTest, CaseFollowsUnicode) {
  EXPECT_EQ(Upper("straße é ж"), "STRASSE É Ж");
  EXPECT_EQ(Lower("ÀÉ Ж"), "àé ж");
  EXPECT_EQ(Upper("Νίκος μι ϐ ſ ı ⅷ"), "ΝΊΚΟΣ ΜΙ Β S I Ⅷ") << "where several characters have the same upper case";
  EXPECT_EQ(Lower("ΝΊΚΟ Ⅷ Ⓐ Ω"), "νίκο ⅷ ⓐ ω") << "the last of them is the sign of the ohm";
  EXPECT_EQ(Upper("a\xFFé\xC3"), "A\xFFÉ\xC3") << "ill-formed bytes stay";
  EXPECT_EQ(Upper(std::string(3000, 'a') + "ɐ"), std::string(3000, 'A') + "Ɐ") << "which grows from two bytes to three";
  EXPECT_EQ(Capitalized("éCOLE"), "École");
  EXPECT_EQ(Titled("it's a-b c"), "It'S A-B C");
}

TEST(CharactersTest, ClassesAreThoseOfUnicode) {
  EXPECT_TRUE(IsOf(CharacterClass::kLetter, U'é'));
  EXPECT_FALSE(IsOf(CharacterClass::kLetter, U'²'));
  EXPECT_TRUE(IsOf(CharacterClass::kDigit, U'²'));
  EXPECT_FALSE(IsOf(CharacterClass::kDecimal, U'²'));
  EXPECT_TRUE(IsOf(CharacterClass::kNumeric, U'½'));
  EXPECT_TRUE(IsOf(CharacterClass::kUpper, U'Ω'));
  EXPECT_TRUE(IsOf(CharacterClass::kPrintable, U'日'));
  EXPECT_TRUE(IsOf(CharacterClass::kPrintable, 0xE0100)) << "a selector of variants";
  for (const char32_t code : {0x80u, 0x200Bu, 0xD800u, 0xE000u, 0x50000u, 0xE0001u, 0x10FFFFu}) {
    EXPECT_FALSE(IsOf(CharacterClass::kPrintable, code)) << std::hex << static_cast<uint32_t>(code);
  }
}

TEST(PythonTextTest, FloatsHaveTheDigitsOfPython) {
  EXPECT_EQ(FloatText(1), "1.0");
  EXPECT_EQ(FloatText(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(FloatText(1e15), "1000000000000000.0");
  EXPECT_EQ(FloatText(1e16), "1e+16");
  EXPECT_EQ(FloatText(0.0001), "0.0001");
  EXPECT_EQ(FloatText(0.00001), "1e-05");
  EXPECT_EQ(FloatText(-1234.5), "-1234.5");
}

}  // namespace
}  // namespace kvern::jinja
