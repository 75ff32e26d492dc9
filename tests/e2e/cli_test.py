#!/usr/bin/env python3
"""The kvern program as a user meets it: help, exit codes, streams, bad input, signals.

  tests/e2e/cli_test.py build/release/kvern [unittest options]

Tests of generated text need SmolLM2 in models/ (scripts/fetch_model.sh smollm2) and are skipped without it.
"""
import csv
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import termios
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
KVERN = str(ROOT / "build" / "release" / "kvern")
PROMPT = "The capital of France is"
PROMPT_IDS = [504, 3575, 282, 4649, 314]  # As transformers encodes it.
COMMANDS = ["run", "chat", "serve", "cache", "demo", "tokenize", "inspect", "ppl", "bench", "quality", "diagnose", "compare"]
LONG = "600"  # Tokens; far more than are generated before the test interrupts.

needs_model = unittest.skipUnless(MODEL.exists(), f"{MODEL.name} is not in models/: scripts/fetch_model.sh smollm2")


def environment(**changes):
    clean = {key: value for key, value in os.environ.items() if key != "KVERN_MODEL"}
    return {**clean, **changes}


def kvern(*arguments, stdin=b"", directory=ROOT, env=None):
    return subprocess.run([KVERN, *map(str, arguments)], input=stdin, capture_output=True, cwd=directory,
                          env=env or environment(), timeout=600)


class CliTest(unittest.TestCase):
    def expect(self, result, code):
        self.assertEqual(result.returncode, code, result.stderr.decode(errors="replace"))

    def expect_error(self, result, code, *parts):
        """One clear message on stderr, nothing on stdout."""
        self.expect(result, code)
        self.assertEqual(result.stdout, b"")
        message = result.stderr.decode()
        for part in parts:
            self.assertIn(part, message)


class HelpAndUsage(CliTest):
    def test_help_shows_every_command(self):
        result = kvern("--help")
        self.expect(result, 0)
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", result.stdout.decode())

    def test_help_of_each_command_shows_two_examples(self):
        for command in COMMANDS:
            result = kvern(command, "--help")
            self.expect(result, 0)
            examples = [line for line in result.stdout.decode().split("Examples:")[1].splitlines() if "kvern " in line]
            self.assertEqual(len(examples), 2, command)

    def test_version_is_printed(self):
        self.assertRegex(kvern("--version").stdout.decode(), r"^kvern \d+\.\d+\.\d+\n$")

    def test_wrong_usage_exits_with_2(self):
        self.expect_error(kvern(), 2, "run")
        self.expect_error(kvern("frobnicate"), 2, "frobnicate")
        self.expect_error(kvern("run", "--frobnicate", "x"), 2, "--frobnicate", "kvern run --help")
        self.expect_error(kvern("run"), 2, "PROMPT", "--file")
        self.expect_error(kvern("run", "text", "--file", "x"), 2, "either")
        self.expect_error(kvern("ppl"), 2, "--file")
        self.expect_error(kvern("run", "x", "-n", "-1"), 2, "--max-tokens: found '-1'", "expected a number", "kvern run --help")
        self.expect_error(kvern("serve", "--port", "65536"), 2, "--port: found '65536'", "expected a number")
        self.expect_error(kvern("run", "x", "--isa", "sse9"), 2, "sse9", "avx2")
        self.expect_error(kvern("run", "-m", "x", "x", "--kv-type", "f8"), 2, "f8", "f16")
        self.expect_error(kvern("run", "x", "--activations", "int4"), 2, "int4")
        self.expect_error(kvern("run", "-m", "x", "x", "--kv-budget", "3x"), 2, "3x", "GiB")
        self.expect_error(kvern("run", "-m", "x", "x", "--block-size", "17"), 2, "17", "16")
        self.expect_error(kvern("run", "-m", "x", "x", "--block-size", "0"), 2, "block_size is 0", "16")
        self.expect_error(kvern("run", "-m", "x", "x", "--block-size", "7"), 2, "block_size is 7", "16")
        self.expect_error(kvern("run", "-m", "x", "x", "--block-size", str(1 << 31)), 2, str(1 << 31), "4096")
        self.expect_error(kvern("run", "-m", "x", "x", "--window", "63"), 2, "63", "block of 64")
        self.expect_error(kvern("run", "-m", "x", "x", "--window", "64", "--sinks", "65"), 2, "64", "sinks, 65")
        self.expect_error(kvern("run", "-m", "x", "x", "--sinks", "4"), 2, "window")
        self.expect_error(kvern("run", "-m", "x", "x", "--window", "64", "--global", "9-3"), 2, "--global", "9-3")
        self.expect_error(kvern("run", "x", "--placement", "heap"), 2, "heap", "paged", "ring")
        self.expect_error(kvern("run", "-m", "x", "x", "--spill-limit", "much"), 2, "--spill-limit", "much")
        self.expect_error(kvern("run", "-m", "x", "x", "--temp", "-1"), 2, "temperature")
        self.expect_error(kvern("run", "-m", "x", "x", "--top-p", "2"), 2, "top_p")
        self.expect_error(kvern("run", "-m", "x", "x", "--stop", ""), 2, "stop")
        self.expect_error(kvern("chat", "-m", "x", "--temp", "-1"), 2, "temperature")
        self.expect_error(kvern("chat", "-m", "x", "-n", "0"), 2, "--max-tokens: Value 0 not in range 1 to 1048576\n")
        self.expect_error(kvern("ppl", "-f", "x", "--score-from", "0"), 2, "Value 0 not in range 1 to 1048576\n")
        self.expect_error(kvern("bench", "--prefill", "1;2"), 2, "1;2")
        self.expect_error(kvern("bench", "--batch", "0"), 2, "--batch", "0 sequences")
        self.expect_error(kvern("bench", "--shared-prompt", "1,2"), 2, "--shared-prompt")
        self.expect_error(kvern("inspect", "x", "--budget", "much"), 2, "much")
        self.expect_error(kvern("quality", "-m", "x", "f17"), 2, "f17", "f16")
        self.expect_error(kvern("quality", "-m", "x", "--tokens", "0"), 2, "--tokens")
        self.expect_error(kvern("diagnose", "-m", "x", "--tokens", "1"), 2, "--tokens")
        self.expect_error(kvern("ppl", "-m", "x", "-f", "y", "--recompute-every", "64"), 2, "--window")
        self.expect_error(kvern("ppl", "-m", "x", "-f", "y", "--stride", "4", "--score-from", "4"), 2, "--score-from")
        self.expect_error(kvern("compare", "-m", "x", "--only", "f17"), 2, "f17", "no cache")
        self.expect_error(kvern("compare", "-m", "x", "--format", "xml"), 2, "xml", "markdown")


class ModelFiles(CliTest):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def write(self, name, content):
        path = self.directory / name
        path.write_bytes(content)
        return path

    def test_no_model_says_how_to_get_one(self):
        self.expect_error(kvern("run", "x", directory=self.directory), 2, "fetch_model", "KVERN_MODEL", "-m")

    def test_two_models_are_listed(self):
        (self.directory / "models").mkdir()
        self.write("models/a.gguf", b"")
        self.write("models/b.gguf", b"")
        self.expect_error(kvern("run", "x", directory=self.directory), 2, "models/a.gguf", "models/b.gguf")

    def test_the_environment_names_a_model(self):
        result = kvern("run", "x", env=environment(KVERN_MODEL="named/by/environment.gguf"))
        self.expect_error(result, 1, "named/by/environment.gguf")

    def test_files_that_are_no_model_are_refused_by_every_command(self):
        files = [self.directory / "absent.gguf", self.directory, self.write("empty.gguf", b""),
                 self.write("text.gguf", b"This is no model.\n" * 100), self.write("cut.gguf", b"GGUF\x03\0\0\0\1\0\0")]
        text = self.write("text.txt", b"a text\n" * 10)
        for path in files:
            for arguments in (["run", "-m", path, "x"], ["chat", "-m", path], ["inspect", path], ["tokenize", "-m", path, "x"],
                              ["ppl", "-m", path, "-f", text], ["bench", "-m", path], ["demo", "-m", path],
                              ["quality", "-m", path, "--text", text], ["diagnose", "-m", path, "--text", text],
                              ["compare", "-m", path, "--text", text]):
                self.expect_error(kvern(*arguments), 1, str(path))

    @needs_model
    def test_a_truncated_model_is_refused(self):
        with MODEL.open("rb") as model:
            head = model.read(3 << 20)
        for size in (4, 100, 5000, len(head)):
            path = self.write("cut.gguf", head[:size])
            self.expect_error(kvern("run", "-m", path, "x"), 1, str(path))

    def test_an_input_file_that_is_absent_is_named(self):
        self.expect_error(kvern("run", "-m", "x", "--file", "absent.txt"), 1, "absent.txt")
        self.expect_error(kvern("ppl", "-m", "x", "--file", "absent.txt"), 1, "absent.txt")

    @needs_model
    def test_a_text_that_is_absent_or_too_short_is_named(self):
        for command in ("quality", "diagnose", "compare"):
            self.expect_error(kvern(command, "-m", MODEL, "--text", "absent.txt"), 1, "absent.txt")
        short = self.write("short.txt", b"Not long enough.")
        self.expect_error(kvern("quality", "-m", MODEL, "--text", short), 1, "short.txt", "8,193")
        self.expect_error(kvern("compare", "-m", MODEL, "--text", short), 1, "short.txt", "2,049")


@needs_model
class Inspect(CliTest):
    def test_text_has_shapes_types_and_cache_costs(self):
        text = kvern("inspect", MODEL).stdout.decode()
        for part in ("llama", "Q4_1", "Q8_0", "23,040", "46,080", "tokenizer.ggml.pre = smollm"):
            self.assertIn(part, text)

    def test_json_has_what_fits_in_a_budget(self):
        result = kvern("inspect", MODEL, "--json", "--budget", "1GiB")
        self.expect(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual(report["num_layers"], 30)
        f16 = next(codec for codec in report["kv"] if codec["kv_type"] == "f16")
        self.assertEqual(f16["bytes_per_token"], 30 * 2 * 3 * 64 * 2)
        self.assertEqual(f16["fits"][0]["tokens"], (1 << 30) // (23040 * 64) * 64)

    def test_placements_show_what_they_waste(self):
        result = kvern("inspect", MODEL, "--placements", "--json")
        self.expect(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual(len(report["lengths"]), 32)
        rows = {(row["placement"], row["block_size"]): row for row in report["placements"]}
        used = sum(report["lengths"]) * 23040
        for row in report["placements"]:
            if row["unavailable"]:
                continue
            self.assertEqual(row["used_bytes"], used)
            self.assertEqual(row["wasted_bytes"], row["reserved_bytes"] - used)
        paged = rows["paged", 16]
        self.assertLessEqual(paged["wasted_bytes"] / paged["reserved_bytes"], 0.04)
        self.assertGreater(rows["contiguous", 64]["wasted_bytes"] / rows["contiguous", 64]["reserved_bytes"], 0.4)
        self.assertIn("--window", rows["ring", 64]["unavailable"])

    def test_lengths_of_placements_are_checked(self):
        self.expect_error(kvern("inspect", MODEL, "--placements", "--lengths", "1;2"), 2, "1;2")
        self.expect_error(kvern("inspect", MODEL, "--placements", "--lengths", "0,5"), 2, "sequence of 0 tokens")
        self.expect_error(kvern("inspect", MODEL, "--placements", "--lengths", "900", "-c", 800), 2, "900", "800")


@needs_model
class Tokenize(CliTest):
    def ids(self, *arguments, **options):
        result = kvern("tokenize", "-m", MODEL, "--ids-only", *arguments, **options)
        self.expect(result, 0)
        return [int(word) for word in result.stdout.split()]

    def test_ids_are_those_of_the_golden_sentence(self):
        self.assertEqual(self.ids(PROMPT), PROMPT_IDS)

    def test_text_comes_from_argument_file_or_stdin(self):
        with tempfile.NamedTemporaryFile() as file:
            file.write(PROMPT.encode())
            file.flush()
            self.assertEqual(self.ids("--file", file.name), PROMPT_IDS)
        self.assertEqual(self.ids(stdin=PROMPT.encode()), PROMPT_IDS)
        self.assertEqual(self.ids("--file", "-", stdin=PROMPT.encode()), PROMPT_IDS)

    def test_pieces_stand_beside_their_ids(self):
        lines = kvern("tokenize", "-m", MODEL, PROMPT).stdout.decode().splitlines()
        self.assertEqual(lines, ["504\tThe", "3575\t capital", "282\t of", "4649\t France", "314\t is"])

    def test_control_tokens_count_only_when_asked(self):
        self.assertEqual(len(self.ids("--parse-special", "<|im_start|>")), 1)
        self.assertGreater(len(self.ids("<|im_start|>")), 1)

    def test_json_and_decode_are_inverse(self):
        text = "naïve 🙂\n\tdone"
        report = json.loads(kvern("tokenize", "-m", MODEL, "--json", text).stdout)
        self.assertEqual(len(report["ids"]), len(report["pieces"]))
        back = kvern("tokenize", "-m", MODEL, "--decode", json.dumps(report["ids"]))
        self.assertEqual(back.stdout.decode(), text + "\n")

    def test_ill_formed_utf8_survives(self):
        ids = self.ids(stdin=b"a\x80\xc3b")
        back = kvern("tokenize", "-m", MODEL, "--decode", stdin=" ".join(map(str, ids)).encode())
        self.assertEqual(back.stdout, b"a\x80\xc3b\n")

    def test_a_byte_that_the_vocabulary_cannot_write_is_named(self):
        self.expect_error(kvern("tokenize", "-m", MODEL, stdin=b"a\xff"), 1, "0xFF", "offset 1")

    def test_ids_outside_the_vocabulary_are_refused(self):
        self.expect_error(kvern("tokenize", "-m", MODEL, "--decode", "1 99999999"), 1, "99999999", "49152")


@needs_model
class Run(CliTest):
    def run_json(self, *arguments, **options):
        result = kvern("run", "-m", MODEL, "--json", *arguments, **options)
        self.expect(result, 0)
        return json.loads(result.stdout)

    def test_text_goes_to_stdout_and_numbers_to_stderr(self):
        result = kvern("run", "-m", MODEL, "-n", 8, PROMPT)
        self.expect(result, 0)
        self.assertIn("Paris", result.stdout.decode())
        self.assertRegex(result.stderr.decode(), r"^5 tokens in, 8 out; prefill .* tok/s, decode .* tok/s; KV .*B; "
                                                 r"12 tokens computed, [1-9]\d* reused\n$")

    def test_without_the_cache_the_text_is_the_same_and_the_work_is_not(self):
        cached = self.run_json("-n", 12, PROMPT)
        uncached = self.run_json("-n", 12, "--no-cache", PROMPT)
        self.assertEqual(cached["ids"], uncached["ids"])
        self.assertEqual(cached["text"], uncached["text"])
        self.assertEqual(cached["stats"]["tokens_computed"], 5 + 11)
        self.assertEqual(uncached["stats"]["tokens_computed"], sum(range(5, 5 + 12)))
        self.assertEqual(uncached["stats"]["tokens_reused"], 0)

    def test_json_says_what_was_done(self):
        report = self.run_json("-n", 4, PROMPT)
        self.assertEqual(report["prompt_ids"], PROMPT_IDS)
        self.assertEqual(len(report["ids"]), 4)
        self.assertEqual(report["finish_reason"], "length")
        self.assertGreater(report["stats"]["decode_tok_per_s"], 0)

    def test_no_tokens_only_fill_the_cache(self):
        result = kvern("run", "-m", MODEL, "-n", 0, PROMPT)
        self.expect(result, 0)
        self.assertEqual(result.stdout, b"")
        self.assertIn("5 tokens in, 0 out", result.stderr.decode())

    def test_generation_ends_before_a_stop_text(self):
        report = self.run_json("-n", 40, "--stop", "Paris", "--stop", "never", PROMPT)
        self.assertNotIn("Paris", report["text"])
        self.assertIn("stop", report["finish_reason"])

    def test_one_seed_gives_one_text_on_any_thread_count(self):
        options = ["-n", 12, "--temp", 1.2, "--top-k", 50, "--seed", 11, PROMPT]
        self.assertEqual(self.run_json("--threads", 1, *options)["ids"], self.run_json(*options)["ids"])

    def test_the_prompt_may_be_any_bytes_from_stdin(self):
        report = self.run_json("-n", 2, "--file", "-", stdin=b"caf\xc3 \x80 ")
        self.assertEqual(len(report["ids"]), 2)

    def test_an_empty_prompt_is_refused(self):
        self.expect_error(kvern("run", "-m", MODEL, ""), 1, "empty")

    def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(self):
        self.expect_error(kvern("run", "-m", MODEL, "--ctx-size", 64, "word " * 200), 1, "64", "20")

    def test_a_budget_below_one_block_says_what_is_needed(self):
        self.expect_error(kvern("run", "-m", MODEL, "--kv-budget", "1KiB", PROMPT), 1, str(23040 * 64))

    def test_a_budget_is_explained_before_the_run(self):
        result = kvern("run", "-m", MODEL, "--kv-budget", "8MiB", "-n", 1, PROMPT)
        self.expect(result, 0)
        self.assertIn("23,040 bytes per token", result.stderr.decode())
        self.assertIn("longest context 320 tokens in 7,372,800 bytes", result.stderr.decode())

    def test_what_a_budget_forbids_says_three_things_to_try(self):
        result = kvern("run", "-m", MODEL, "--kv-budget", "2MiB", "word " * 100)
        self.expect(result, 1)
        for part in ("64 tokens", "--kv-budget", "type of keys and values", "--window"):
            self.assertIn(part, result.stderr.decode())

    def test_placements_give_one_text_and_windows_run_in_any_of_them(self):
        plain = self.run_json("-n", 12, PROMPT)["ids"]
        for placement in ("contiguous", "growing"):
            self.assertEqual(self.run_json("-n", 12, "-c", 64, "--placement", placement, PROMPT)["ids"], plain)
        window = ["-n", 90, "--ignore-eos", "--window", 32, "--sinks", 4, "--block-size", 16, PROMPT]
        paged = self.run_json(*window)
        self.assertEqual(self.run_json("--placement", "ring", "--prefill-chunk", 3, *window)["ids"], paged["ids"])
        self.assertEqual(paged["stats"]["tokens_computed"], 94)
        self.assertLessEqual(paged["stats"]["kv_bytes"], 4 * 16 * 23040)

    def test_a_ring_needs_a_window(self):
        self.expect_error(kvern("run", "-m", MODEL, "--placement", "ring", PROMPT), 1, "--window")

    def test_stats_show_the_cache_by_state(self):
        result = kvern("run", "-m", MODEL, "-n", 2, "--stats", PROMPT)
        self.expect(result, 0)
        for part in ("total", "free", "filling", "full", "idle", "used at the peak"):
            self.assertIn(part, result.stderr.decode())

    def test_an_absent_spill_directory_is_named(self):
        self.expect_error(kvern("run", "-m", MODEL, "--spill-dir", "/no/such/place", PROMPT), 1, "/no/such/place")

    def test_more_threads_than_the_process_may_use_are_refused(self):
        self.expect_error(kvern("run", "-m", MODEL, "--threads", 1000, PROMPT), 1, "1000")

    def test_a_closed_pipe_ends_it_with_one_message(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        result = subprocess.run([KVERN, "run", "-m", str(MODEL), "-n", LONG, "--ignore-eos", PROMPT], stdout=write_end,
                                stderr=subprocess.PIPE, env=environment(), timeout=600)
        os.close(write_end)
        self.assertEqual(result.returncode, 1)
        self.assertIn("closed", result.stderr.decode())

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([KVERN, "run", "-m", str(MODEL), "-n", "4", PROMPT], stdout=full,
                                    stderr=subprocess.PIPE, env=environment(), timeout=600)
        self.assertEqual(result.returncode, 1)
        self.assertIn("standard output", result.stderr.decode())

    def test_ctrl_c_keeps_the_text_so_far(self):
        process = subprocess.Popen([KVERN, "run", "-m", str(MODEL), "-n", LONG, "--ignore-eos", PROMPT],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        first = process.stdout.read(1)  # Generation has begun.
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130)
        self.assertTrue((first + rest).decode().startswith(" Paris"[:1]))
        self.assertTrue(rest.endswith(b"\n"))
        self.assertRegex(errors.decode(), r"5 tokens in, \d+ out; ")

    def test_ctrl_c_while_reading_the_prompt_ends_it(self):
        process = subprocess.Popen([KVERN, "run", "-m", str(MODEL), "--file", "-"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        process.stdin.write(b"x" * (1 << 20))  # More than a pipe holds: when this returns, the program reads.
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=600)
        self.assertEqual(process.returncode, 130)
        process.stdin.close()
        process.stdout.close()
        process.stderr.close()


@needs_model
class Measure(CliTest):
    def test_perplexity_of_ids_scores_all_but_the_first(self):
        ids = json.dumps(PROMPT_IDS * 8).encode()
        result = kvern("ppl", "-m", MODEL, "--ids", "-", "--ctx-size", 64, "--stride", 32, "--json", stdin=ids)
        self.expect(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual(report["scored"], 39)
        self.assertGreater(report["perplexity"], 1)

    def test_perplexity_of_chunks_scores_second_halves(self):
        text = (PROMPT + " Paris. ").encode() * 20
        result = kvern("ppl", "-m", MODEL, "-f", "-", "--ctx-size", 32, "--chunks", 2, "--json", stdin=text)
        self.expect(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual((report["windows"], report["scored"]), (2, 2 * 15))

    def test_perplexity_shows_a_window_beside_recomputing_it(self):
        ids = json.dumps((PROMPT_IDS * 40)[:160]).encode()
        options = ["--ids", "-", "--window", 64, "--sinks", 4, "--recompute-every", 16, "--ctx-size"]
        result = kvern("ppl", "-m", MODEL, *options, 160, "--score-from", 100, "--json", stdin=ids)
        self.expect(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual(report["scored"], 60)
        recompute = report["recompute"]
        self.assertEqual((recompute["tokens"], recompute["window"], recompute["sinks"]), (4, 64, 4))
        self.assertEqual([way["sinks"] for way in recompute["recomputed"]], [0, 4])
        for way in recompute["recomputed"]:
            self.assertAlmostEqual(recompute["cached_nll"] - way["nll"], way["cached_less_this"], 4)
        text = kvern("ppl", "-m", MODEL, *options, 160, stdin=ids)
        self.expect(text, 0)
        self.assertRegex(text.stdout.decode(), r"recomputed window \+ 4 sinks +-?[0-9.]+ \+- ")
        self.expect_error(kvern("ppl", "-m", MODEL, *options, 64, stdin=ids), 1, "--ctx-size is 64")

    def test_a_text_too_short_for_a_chunk_is_refused(self):
        self.expect_error(kvern("ppl", "-m", MODEL, "-f", "-", stdin=b"short"), 1, "512")

    def test_bench_reports_samples_and_limits(self):
        result = kvern("bench", "-m", MODEL, "--prefill", 16, "--depth", 0, "--batch", "1,3", "--shared-prompt", 100,
                       "-n", 4, "-r", 2, "--json")
        self.expect(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual([row["test"] for row in report["results"]], ["prefill", "decode"] + ["batch"] * 4)
        self.assertEqual([row["sequences"] for row in report["results"]], [1, 1, 1, 3, 1, 3])
        self.assertEqual([row["shared_prompt"] for row in report["results"]], [0, 0, 0, 0, 100, 100])
        self.assertEqual(report["weights_per_prompt_token"], 106168320)
        self.assertGreater(report["load_gb_per_s"], 0)
        for row in report["results"]:
            self.assertEqual(len(row["samples"]), 2)
            self.assertGreater(row["tok_per_s"]["median"], 0)

    def test_bench_measures_long_prompts_once(self):
        result = kvern("bench", "-m", MODEL, "--prefill", "none", "--depth", 1024, "--batch", "none", "-n", 2, "-r", 3,
                       "--no-probe")
        self.expect(result, 0)
        self.assertRegex(result.stdout.decode(), r"\ndecode at 1024 +\d")
        self.assertRegex(result.stdout.decode(), r" of weights, up to .* of KV, .* on huge pages; loaded in .* GB/s of file")

    def test_bench_leaves_out_what_does_not_fit(self):
        def bench(prefill, batch, *options):
            return kvern("bench", "-m", MODEL, "--depth", "none", "--prefill", prefill, "--batch", batch, *options)
        self.expect_error(bench(99999, "none"), 2, "99999", "8192")
        self.expect_error(bench(1000, "none", "--kv-budget", "2MiB"), 2, "1000", "2.0 MiB")
        self.expect_error(bench("none", 4, "--no-cache"), 2, "4 sequences", "take turns")

    def test_ctrl_c_prints_the_rows_that_are_done(self):
        terminal, its_stderr = os.openpty()
        process = subprocess.Popen([KVERN, "bench", "-m", str(MODEL), "--prefill", "8", "--depth", "none", "--batch",
                                    "1,2", "-n", "1000", "-r", "1000", "--no-probe", "--json"],
                                   stdout=subprocess.PIPE, stderr=its_stderr, env=environment())
        os.close(its_stderr)
        shown = b""
        while b"measuring" not in shown:  # The bar appears with the first sample.
            shown += os.read(terminal, 1000)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=600)
        os.close(terminal)
        self.assertEqual(process.returncode, 130)
        rows = json.loads(output)["results"]
        self.assertEqual(rows[0]["test"], "prefill")
        self.assertLess(len(rows), 5)  # Two batches, each alone and shared, come after it.

    def test_demo_finds_equal_texts_and_the_work_that_theory_says(self):
        result = kvern("demo", "-m", MODEL, "-n", 6)
        self.expect(result, 0)
        text = result.stdout.decode()
        self.assertIn("texts identical: yes", text)
        self.assertIn("counters as theory says: yes", text)


@needs_model
class Chat(CliTest):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = pathlib.Path(self.temporary.name)

    def tearDown(self):
        self.temporary.cleanup()

    def chat(self, *lines, options=("-n", 12)):
        return kvern("chat", "-m", MODEL, *options, stdin="".join(f"{line}\n" for line in lines).encode())

    def messages(self, name):
        return json.loads((self.directory / name).read_text())["messages"]

    def test_answers_are_all_that_goes_to_stdout_and_each_turn_reuses_the_one_before(self):
        result = self.chat("Say hello.", "/stats", "And now in\\", "French.", "/stats", f"/save {self.directory}/a.json")
        self.expect(result, 0)
        saved = self.messages("a.json")
        self.assertEqual([message["role"] for message in saved], ["user", "assistant"] * 2)
        self.assertEqual(saved[2]["content"], "And now in\nFrench.")
        answers = [message["content"] for message in saved[1::2]]
        self.assertEqual(result.stdout.decode(), "".join(f"{answer}\n" for answer in answers))

        stats = result.stderr.decode()
        turns = [tuple(map(int, turn)) for turn in re.findall(
            r"last turn: (\d+) prompt tokens, (\d+) found in the cache, (\d+) computed; .*; (\d+) tokens", stats)]
        (prompt, found, computed, generated), (second, found_again, computed_again, _) = turns
        self.assertEqual((found, computed), (0, prompt))
        # All but the last token drawn has keys and values, and that one too where the model ended the answer.
        self.assertIn(found_again, (prompt + generated - 1, prompt + generated))
        self.assertEqual(found_again + computed_again, second)
        self.assertIn(f"goes on, token for token, where the turn before it ended (token {prompt + generated})", stats)
        self.assertIn(f"2 turns: {prompt + second} prompt tokens", stats)

    def test_undo_takes_a_turn_back_and_the_next_prompt_departs_there(self):
        result = self.chat("/system Be short.", "Say hello.", "What is a mill?", "/undo",
                           f"/save {self.directory}/a.json", "What is a mill?", "/stats", "/reset", f"/save {self.directory}/b.json",
                           f"/load {self.directory}/a.json", "What is a mill?", "/quit", "not sent")
        self.expect(result, 0)
        self.assertEqual([message["role"] for message in self.messages("a.json")], ["system", "user", "assistant"])
        self.assertEqual(self.messages("b.json"), [{"role": "system", "content": "Be short."}])
        self.assertRegex(result.stderr.decode(), r"departs from the turn before it at token \d+ of \d+")
        self.assertIn("taken back: What is a mill?", result.stderr.decode())

        # The same question in the same place has the same answer, computed, found again, and from a file.
        lines = self.chat("/system Be short.", "Say hello.").stdout
        self.assertTrue(result.stdout.startswith(lines))
        rest = result.stdout[len(lines):]
        self.assertEqual(rest, rest[:len(rest) // 3] * 3)

    def test_a_conversation_that_ends_with_a_question_is_answered(self):
        (self.directory / "q.json").write_text(json.dumps({"messages": [{"role": "user", "content": "Say hello."}]}))
        self.assertEqual(self.chat(f"/load {self.directory}/q.json").stdout, self.chat("Say hello.").stdout)

    def test_what_fails_is_said_and_the_chat_goes_on(self):
        bad = self.directory / "bad.json"
        bad.write_text('{"messages": [{"role": "robot", "content": "x"}]}')
        result = self.chat("/frobnicate", "/load", f"/load {bad}", "/load /absent/file", "/save /absent/file", "/undo",
                           "Say hello.")
        self.expect(result, 1)
        for part in ("no command /frobnicate", "needs the name of a file", 'bad.json: messages[0] has the role "robot"',
                     "/absent/file: cannot be opened", "/absent/file cannot be written", "nothing to take back"):
            self.assertIn(part, result.stderr.decode())
        self.assertEqual(result.stdout, self.chat("Say hello.").stdout)

    def test_a_command_with_too_much_after_it_does_nothing(self):
        result = self.chat("Say hello.", "/undo 1", "/reset now", "/stats all", "/quit please",
                           f"/save {self.directory}/a.json")
        self.expect(result, 1)
        for part in ('/undo stands alone, but "1" follows', "/reset stands", "/stats stands", "/quit stands",
                     "2 messages written"):
            self.assertIn(part, result.stderr.decode())
        self.assertEqual(self.messages("a.json")[0]["content"], "Say hello.")

    def test_commands_say_what_they_have_done(self):
        result = self.chat("/reset", "/system Be short.", "/reset", f"/save {self.directory}/a.json", "/system")
        self.expect(result, 0)
        self.assertIn("a new conversation\nthe system message is set\na new conversation; the system message stays\n"
                      f"1 message written to {self.directory}/a.json\nthere is no system message now\n",
                      result.stderr.decode())

    def test_a_file_without_end_is_not_loaded(self):
        result = self.chat("/load /dev/zero", "/save /dev/full")
        self.expect(result, 1)
        self.assertIn("/dev/zero: has more than 67108864 bytes", result.stderr.decode())
        self.assertIn("/dev/full cannot be written: No space left", result.stderr.decode())

    def test_a_full_context_is_told(self):
        result = self.chat("Say hello.", "/undo", '"""', *["mill"] * 100, '"""', "Say hello.",
                           options=("-c", 64, "-n", 5))
        self.expect(result, 1)
        self.assertRegex(result.stderr.decode(), r"of 2\d\d tokens fills the context of 64: /undo .* /reset")
        first, second = result.stdout.splitlines()
        self.assertEqual(first, second)
        self.assertIn("the context is full", self.chat("Say hello.", options=("-c", 40)).stderr.decode())

    def test_a_model_without_a_template_is_refused(self):
        data = MODEL.read_bytes()[:4 << 20].replace(b"tokenizer.chat_template", b"tokenizer.chat_tomplate")
        path = self.directory / "base.gguf"
        path.write_bytes(data)
        os.truncate(path, MODEL.stat().st_size)
        self.expect_error(kvern("chat", "-m", path), 1, str(path), "no chat template", "kvern run")

    def test_ctrl_c_stops_the_answer_and_ctrl_d_the_program(self):
        terminal, its_end = os.openpty()
        process = subprocess.Popen([KVERN, "chat", "-m", str(MODEL), "-n", "4000"], stdin=its_end, stderr=its_end,
                                   stdout=subprocess.PIPE, env=environment(TERM="xterm"))
        os.close(its_end)
        shown = b""

        def wait_for(part):
            nonlocal shown
            while part not in shown:
                shown += os.read(terminal, 1000)
            shown = shown.split(part, 1)[1]

        def wait_for_prompt():
            wait_for(b"> ")
            # Keys are read one by one before it shows: what is typed at once, Ctrl-D above all, is not lost.
            self.assertFalse(termios.tcgetattr(terminal)[3] & termios.ICANON)

        wait_for_prompt()
        for typed in (b"dropped\x03", b"\x03", b"\x03", b"\"\"\"\x03"):  # There may be nothing to drop.
            os.write(terminal, typed)
            wait_for(b"^C")
            wait_for_prompt()
        for question in (b"List the numbers from 1 to 2000.\n", b"List them again, from 1 to 2000.\n"):
            os.write(terminal, question)
            self.assertGreater(len(os.read(process.stdout.fileno(), 1)), 0)  # It streams.
            wait_for(question[-7:-1])  # The echo of what was typed.
            process.send_signal(signal.SIGINT)
            wait_for_prompt()
            os.read(process.stdout.fileno(), 1 << 16)  # The rest of the answer is in the pipe.
        os.write(terminal, f"/save {self.directory}/a.json\n".encode())
        wait_for(b"written")
        wait_for_prompt()
        os.write(terminal, b"\x04")
        process.communicate(timeout=600)
        os.close(terminal)
        self.assertEqual(process.returncode, 0)
        saved = self.messages("a.json")
        self.assertEqual([message["role"] for message in saved], ["user", "assistant"] * 2)
        self.assertEqual(saved[0]["content"], "List the numbers from 1 to 2000.")

    def test_what_is_pasted_is_one_message(self):
        terminal, its_end = os.openpty()
        process = subprocess.Popen([KVERN, "chat", "-m", str(MODEL), "-n", "4"], stdin=its_end, stderr=its_end,
                                   stdout=subprocess.PIPE, env=environment(TERM="xterm"))
        os.close(its_end)
        shown = b""
        for typed in ("\x1b[200~One líne,\rand /quit\x07\n\x1b[201~in another.\r", f"/save {self.directory}/a.json\r", "\x04"):
            while not shown.endswith(b"\x1b[?2004h> "):  # Asks for the marks around what is pasted.
                shown += os.read(terminal, 1000)
            shown = b""
            os.write(terminal, typed.encode())
        process.communicate(timeout=600)
        os.close(terminal)
        self.assertEqual(process.returncode, 0)
        user, assistant = self.messages("a.json")
        self.assertEqual(user["content"], "One líne,\nand /quit\nin another.")
        self.assertEqual(assistant["role"], "assistant")


def long_text():
    """A text of about 1,500 tokens that no package has to bring."""
    words = "the mill grinds every grain once and no grain of wheat is ground a second time by any stone".split()
    return " ".join(words[(i * i * 7 + i // 5) % len(words)] for i in range(1500)).encode()


@needs_model
class Analyse(CliTest):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.directory = pathlib.Path(self.temporary.name)
        self.text = self.directory / "text.txt"
        self.text.write_bytes(long_text())
        self.verdicts = self.directory / "cache" / "verdicts.json"

    def tearDown(self):
        self.temporary.cleanup()

    def command(self, name, *arguments):
        return kvern(name, "-m", MODEL, "--text", self.text, "--verdicts", self.verdicts, *arguments)

    def test_quality_measures_codecs_against_f32(self):
        result = self.command("quality", "f16", "f32", "--tokens", 400, "--ctx-size", 300, "--json")
        self.expect(result, 0)
        f16, f32 = json.loads(result.stdout)["results"]
        self.assertEqual(f16["numbers"]["tokens"], 400)
        self.assertLess(f16["numbers"]["kld_mean"]["value"], 1e-5)
        self.assertGreater(f16["numbers"]["kld_mean"]["value"], 0)
        self.assertEqual([bucket["end"] for bucket in f16["buckets"]], [256, 300])
        self.assertEqual(f16["verdict"], "too few tokens")
        self.assertEqual((f32["numbers"]["kld_max"], f32["numbers"]["same_top"]["value"]), (0, 1))
        self.assertFalse(self.verdicts.exists())  # 400 tokens are no verdict.

    def test_a_codec_without_a_verdict_is_named_and_one_that_failed_is_refused(self):
        def run(*arguments):
            return kvern("run", "-m", MODEL, "--verdicts", self.verdicts, "-n", 1, "--kv-type", "int8", PROMPT, *arguments)
        unknown = run()
        self.expect(unknown, 0)
        self.assertIn("kvern quality int8", unknown.stderr.decode())
        self.assertNotIn("quality", kvern("run", "-m", MODEL, "--verdicts", self.verdicts, "-n", 1, PROMPT).stderr.decode())

        stored = json.loads(self.verdicts.read_text())  # The digest of the model was remembered.
        verdict = {"model": list(stored["digests"].values())[0], "codecs": "int8", "gate": "8-bit", "is_passed": False,
                   "tokens": 8192, "kld": 0.5, "kld_error": 0.01, "same_top": 0.9, "same_top_error": 0.01}
        self.verdicts.write_text(json.dumps({**stored, "verdicts": [verdict]}))
        self.expect_error(run(), 1, "int8", "8-bit", "KLD 0.5", "90.0 %", "--allow-lossy")
        allowed = run("--allow-lossy")
        self.expect(allowed, 0)
        self.assertIn("running anyway", allowed.stderr.decode())

        verdict["is_passed"] = True
        self.verdicts.write_text(json.dumps({**stored, "verdicts": [verdict]}))
        self.assertNotIn("quality", run().stderr.decode())
        self.verdicts.write_text("{")
        self.assertIn("verdicts.json", run().stderr.decode())

    def test_diagnose_describes_every_head_and_writes_a_page(self):
        page = self.directory / "heads.html"
        result = self.command("diagnose", "--tokens", 300, "--html", page, "--json")
        self.expect(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual(len(report["heads"]), 30 * 3)
        self.assertEqual(len(report["heads"][0]["k"]["channel_means"]), 64)
        self.assertIsNone(report["non_finite"])
        self.assertIn("f16", report["advice"][0])
        self.assertIn("<svg", page.read_text())

        text = self.command("diagnose", "--tokens", 100).stdout.decode()
        self.assertIn("\n- f16 and bf16 are safe", text)
        self.assertIn("kvern quality", text)

    def test_compare_prints_its_rows_in_every_format(self):
        page = self.directory / "compare.html"
        options = ["--length", 128, "--quality-tokens", 100, "--batch", 2, "--batch-tokens", 64, "--only", "no cache",
                   "--only", "f16", "--only", "paged 16", "--only", "int8", "--only", "int8 per tensor"]
        result = self.command("compare", *options, "--format", "json", "--html", page)
        self.expect(result, 0)
        rows = json.loads(result.stdout)["rows"]
        self.assertEqual([row["row"] for row in rows], ["no cache", "f16", "int8", "int8 per tensor", "paged 16"])
        self.assertEqual(rows[0]["query_key_products"], rows[0]["theory_products"])
        self.assertEqual(rows[1]["query_key_products"], rows[1]["theory_products"])
        computed = 128 + 40
        for row in (rows[1], rows[2], rows[4]):
            self.assertEqual(row["tokens_computed"], computed)
        self.assertEqual(rows[1]["last_step_unmasked"], 30 * 9 * (2 * computed - 1))
        self.assertEqual(rows[0]["last_step_unmasked"], 30 * 9 * (128 + 3) ** 2)
        self.assertEqual(rows[1]["bytes_per_token"], 23040)
        self.assertEqual(rows[1]["quality"]["kld_mean"], rows[4]["quality"]["kld_mean"])
        self.assertGreater(rows[3]["quality"]["kld_mean"]["value"], 5 * rows[2]["quality"]["kld_mean"]["value"])
        self.assertEqual((rows[3]["bytes_per_token"], rows[3]["depths"], rows[3]["tokens_computed"]), (11520, [], None))
        self.assertGreater(rows[1]["batch_tok_per_s"], 0)
        self.assertIn("Latency against length", page.read_text())

        quick = ["--length", 64, "--quality-tokens", 0, "--batch", 0, "--batch-tokens", 64, "--only", "f16"]
        table = self.command("compare", *quick).stdout.decode()
        self.assertRegex(table, r"\nf16 +23,040 ")
        self.assertIn("| f16 |", self.command("compare", *quick, "--format", "markdown").stdout.decode())
        table = list(csv.DictReader(self.command("compare", *quick, "--format", "csv").stdout.decode().splitlines()))
        self.assertEqual([row["bytes_per_token"] for row in table if row["row"] == "f16"], ["23040"])

    def test_ctrl_c_prints_the_rows_of_a_comparison_that_are_done(self):
        terminal, its_stderr = os.openpty()
        process = subprocess.Popen([KVERN, "compare", "-m", str(MODEL), "--text", str(self.text), "--length", "512",
                                    "--quality-tokens", "1000", "--batch-tokens", "512", "--only", "f16", "--only",
                                    "f32", "--format", "json"], stdout=subprocess.PIPE, stderr=its_stderr,
                                   env=environment())
        os.close(its_stderr)
        shown = b""
        while b"%" not in shown:
            shown += os.read(terminal, 1000)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=600)
        os.close(terminal)
        self.assertEqual(process.returncode, 130)
        self.assertLess(len(json.loads(output)["rows"]), 3)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KVERN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
