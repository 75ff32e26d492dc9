#include "cli/sampling_flags.h"

#include <CLI/CLI.hpp>

namespace kvern::cli {

void AddSamplingTo(CLI::App& app, SamplingOptions& sampling) {
  const char* const group = "Sampling (greedy, unless --temp is given)";
  app.add_option("--temp", sampling.temperature, "Temperature; 0: always the most likely token")
      ->capture_default_str()
      ->type_name("T")
      ->group(group);
  app.add_option("--top-k", sampling.top_k, "Draw among the k most likely tokens; 0: all")
      ->capture_default_str()
      ->type_name("K")
      ->group(group);
  app.add_option("--top-p", sampling.top_p, "Draw among the fewest tokens that reach this probability; 1: all")
      ->capture_default_str()
      ->type_name("P")
      ->group(group);
  app.add_option("--min-p", sampling.min_p, "Leave out tokens less likely than this times the most likely one; 0: none")
      ->capture_default_str()
      ->type_name("P")
      ->group(group);
  app.add_option("--repeat-penalty", sampling.repeat_penalty, "Makes tokens seen lately less likely; 1: off")
      ->capture_default_str()
      ->type_name("R")
      ->group(group);
  app.add_option("--repeat-window", sampling.repeat_window, "How many last tokens count as seen lately")
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
  app.add_option("--seed", sampling.seed, "The same seed gives the same text on every machine and thread count")
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
}

}  // namespace kvern::cli
