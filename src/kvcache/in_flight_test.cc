#include "kvcache/in_flight.h"

#include <gtest/gtest.h>

namespace kvern {
namespace {

BlockKey Key(uint8_t number) {
  BlockKey key;
  key.bytes[0] = number;
  return key;
}

TEST(InFlightTest, TheFirstWhoBeginsIsTheOwner) {
  InFlight in_flight;

  in_flight.Begin(Key(1), 10);
  in_flight.Begin(Key(1), 20);

  EXPECT_EQ(in_flight.OwnerOf(Key(1)), 10u);
  EXPECT_EQ(in_flight.OwnerOf(Key(2)), std::nullopt);
}

TEST(InFlightTest, ABlockThatIsThereIsNotInFlight) {
  InFlight in_flight;
  in_flight.Begin(Key(1), 10);

  in_flight.End(Key(1));

  EXPECT_EQ(in_flight.OwnerOf(Key(1)), std::nullopt);
}

TEST(InFlightTest, AnotherTakesOverWhatTheOwnerLeaves) {
  InFlight in_flight;
  in_flight.Begin(Key(1), 10);
  in_flight.Begin(Key(2), 10);
  in_flight.Begin(Key(2), 20);

  in_flight.EndAll(10);
  EXPECT_EQ(in_flight.OwnerOf(Key(2)), std::nullopt);
  in_flight.Begin(Key(2), 20);
  in_flight.EndAll(10);  // A second time: it owns nothing.

  EXPECT_EQ(in_flight.OwnerOf(Key(2)), 20u);
  EXPECT_EQ(in_flight.size(), 1u);
}

TEST(InFlightTest, WhatEndedAndIsBegunByAnotherStaysTheOthers) {
  InFlight in_flight;
  in_flight.Begin(Key(1), 10);
  in_flight.End(Key(1));
  in_flight.Begin(Key(1), 20);  // Evicted, and computed again.

  in_flight.EndAll(10);

  EXPECT_EQ(in_flight.OwnerOf(Key(1)), 20u);
}

}  // namespace
}  // namespace kvern
