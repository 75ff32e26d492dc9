#!/usr/bin/env python3
"""kvern bench serve as a user meets it, and the short form of the soak.

  tests/e2e/bench_serve_test.py build/release/kvern [unittest options]

What needs a server needs SmolLM2 in models/ (scripts/fetch_model.sh smollm2) and is skipped without it.
"""
import contextlib
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
KVERN = str(ROOT / "build" / "release" / "kvern")
NOBODY = "http://127.0.0.1:1"  # Port 1 is privileged and unused.

needs_model = unittest.skipUnless(MODEL.exists(), f"{MODEL.name} is not in models/: scripts/fetch_model.sh smollm2")


def bench_serve(*arguments):
    return subprocess.run([KVERN, "bench", "serve", *map(str, arguments)], capture_output=True, timeout=600)


class FakeServer(http.server.BaseHTTPRequestHandler):
    """Another server of the OpenAI API: answers two words, counts a token per four bytes, wants a key."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    bodies = []  # Of the requests that were streamed.
    answer_s = 0.0  # How long it takes.
    refuses_every = 5  # Of them.
    has_streamed = threading.Event()  # Three of them.

    def log_message(self, *_):
        pass

    def reply(self, status, kind, text):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        self.reply(200, "application/json", json.dumps({"data": [{"id": "other"}]}))

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != "Bearer secret":
            return self.reply(401, "application/json", json.dumps({"error": {"message": "no such key"}}))
        usage = {"prompt_tokens": len(body["prompt"]) // 4, "completion_tokens": 2}
        if not body.get("stream"):
            return self.reply(200, "application/json", json.dumps({"choices": [{"text": "x"}], "usage": usage}))
        with self.lock:
            self.bodies.append(body)
            number = len(self.bodies)
        time.sleep(self.answer_s)
        if number % self.refuses_every == 0:
            return self.reply(429, "application/json", json.dumps({"error": {"message": "come again"}}))
        events = [{"choices": [{"text": "two ", "finish_reason": None}]},
                  {"choices": [{"text": "words", "finish_reason": "stop"}]}, {"choices": [], "usage": usage}]
        if number == 3:
            self.has_streamed.set()
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
        return self.reply(200, "text/event-stream", text)


class BenchServe(unittest.TestCase):
    def setUp(self):
        # Enough words; Debian's FAQ may not be installed.
        self.text = tempfile.NamedTemporaryFile("w", suffix=".txt")
        self.text.write(" ".join(f"The {i}th sentence tells about the number {i * i}." for i in range(300)))
        self.text.flush()

    def tearDown(self):
        self.text.close()

    @contextlib.contextmanager
    def fake_server(self, answer_s=0.0, refuses_every=5):
        FakeServer.answer_s, FakeServer.refuses_every = answer_s, refuses_every
        FakeServer.bodies.clear()
        FakeServer.has_streamed.clear()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeServer)
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/"
        finally:
            server.shutdown()
            server.server_close()

    def expect(self, result, code, *parts):
        self.assertEqual(result.returncode, code, result.stderr.decode())
        for part in parts:
            self.assertIn(part, result.stderr.decode())

    def run_load(self, *arguments, code=0):
        result = bench_serve("--text", self.text.name, "--json", *arguments)
        self.expect(result, code)
        return json.loads(result.stdout)

    def test_help_shows_two_examples(self):
        result = bench_serve("--help")
        self.expect(result, 0)
        examples = result.stdout.decode().split("Examples:")[1]
        self.assertEqual(sum("kvern bench serve" in line for line in examples.splitlines()), 2)

    def test_wrong_usage_exits_with_2(self):
        self.expect(bench_serve("--clients", 0), 2, "--clients")
        self.expect(bench_serve("--frobnicate"), 2, "--frobnicate", "kvern bench serve --help")
        self.expect(bench_serve("--disconnect-share", 2), 2, "--disconnect-share")
        self.expect(bench_serve("--rate", -1), 2, "--rate")
        self.expect(bench_serve("--requests", 0), 2, "--requests")
        self.expect(bench_serve("https://localhost"), 2, "https", "http alone")
        self.expect(bench_serve("http://localhost:x"), 2, "the port is \"x\"")
        self.expect(bench_serve(NOBODY, "-m", "x"), 2, "-m")
        self.expect(bench_serve(NOBODY, "--api-key", "a b"), 2, "--api-key")

    def test_a_server_that_is_absent_is_a_failure(self):
        self.expect(bench_serve(NOBODY, "--text", self.text.name), 1, "cannot connect to 127.0.0.1:1")
        result = bench_serve("-m", "absent.gguf", "--text", self.text.name)
        self.expect(result, 1, "absent.gguf", "ended before it served")

    def test_another_server_is_measured_and_its_errors_are_counted(self):
        with self.fake_server() as url:
            self.expect(bench_serve(url, "--text", self.text.name), 1, "HTTP 401: no such key")
            load = self.run_load(url, "--api-key", "secret", "--requests", 20, "--clients", 3, "--turns", 2,
                                 "--prompt-tokens", 100, "--seed", 5)
        self.assertEqual(load["model"], "other")
        self.assertEqual(load["requests"], {"asked": 20, "answered": 16, "hung_up": 0, "cut": 0, "failed": 4,
                                            "never_asked": 0})
        self.assertEqual(load["failures"], [{"kind": "HTTP 429", "count": 4, "first_message": "come again"}])
        self.assertEqual(load["answer_tokens"], 32)
        self.assertEqual(load["time_to_first_token_ms"]["count"], 16)
        prompts = [body["prompt"] for body in FakeServer.bodies]
        self.assertEqual(len(set(prompts)), 20)
        second_turns = [prompt for prompt in prompts if "two words" in prompt]
        self.assertGreater(len(second_turns), 4)
        for prompt in prompts:
            self.assertAlmostEqual(len(prompt), 810 if prompt in second_turns else 400, delta=40)

    def test_the_wait_of_arrivals_counts_and_those_that_are_never_asked_are_counted(self):
        load = []
        for clients in (1, 1000):
            with self.fake_server(answer_s=0.05, refuses_every=1000) as url:
                load.append(self.run_load(url, "--api-key", "secret", "--rate", 100, "--duration", 1, "--clients", clients))
        slow, fast = load
        # One of 20 that are answered in a second waits for most of it, though each takes 50 ms.
        self.assertGreater(slow["time_to_first_token_ms"]["max"], 700)
        self.assertLessEqual(slow["requests"]["asked"], 21)
        # The same conversations arrive in both.
        arrivals = [one["requests"]["asked"] + one["requests"]["never_asked"] for one in load]
        self.assertEqual(arrivals[0], arrivals[1])
        self.assertIn(arrivals[0], range(60, 141))  # Four standard deviations of 100.

    def test_failures_do_not_hold_up_arrivals(self):
        with self.fake_server(refuses_every=1) as url:
            load = self.run_load(url, "--api-key", "secret", "--rate", 100, "--requests", 20, "--clients", 1, code=1)
        self.assertEqual(load["failures"][0]["count"], 20)
        self.assertLess(load["wall_s"], 2)  # With a pause of 200 ms after each: 4 s.

    @needs_model
    def test_a_server_of_its_own_that_dies_ends_the_load(self):
        process = subprocess.Popen([KVERN, "bench", "serve", "-m", str(MODEL), "--text", self.text.name, "--duration", "600",
                                    "--clients", "2", "--json", "--server-args", "-c 512"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text():
            time.sleep(0.01)
        server = int(children.read_text())
        while process.stderr.readline()[:9] != b"KV cache:":
            pass
        time.sleep(1)
        os.kill(server, signal.SIGKILL)
        output, message = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("the server has ended during the load", message.decode())
        self.assertLess(json.loads(output)["wall_s"], 60)

    @needs_model
    def test_a_server_of_its_own_answers_and_is_gone_afterwards(self):
        load = self.run_load("-m", MODEL, "--requests", 6, "--clients", 3, "--max-tokens", 4, "--prompt-tokens", 20,
                             "--server-args", "-c 256 --alias mine")
        self.assertEqual(load["model"], "mine")
        self.assertEqual(load["requests"]["answered"], 6)
        self.assertIn(load["answer_tokens"], range(6, 25))  # Some texts end early.
        self.assertTrue(load["has_usage"])
        self.assertIn(load["prompt_tokens"] // 6, range(12, 45))  # A name of ten bytes is many tokens of so short a text.
        self.expect(bench_serve(load["url"], "--text", self.text.name), 1, "cannot connect")

    @needs_model
    def test_arrivals_follow_the_rate(self):
        load = self.run_load("-m", MODEL, "--requests", 10, "--rate", 20, "--clients", 10, "--max-tokens", 2,
                             "--prompt-tokens", 8, "--server-args", "-c 256")
        self.assertEqual(load["requests"]["answered"], 10)
        self.assertGreater(load["wall_s"], 0.1)

    def test_ctrl_c_prints_what_is_done(self):
        with self.fake_server() as url:
            process = subprocess.Popen([KVERN, "bench", "serve", url, "--api-key", "secret", "--text", self.text.name,
                                        "--json", "--duration", "600", "--clients", "2"], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
            FakeServer.has_streamed.wait(timeout=60)
            process.send_signal(signal.SIGINT)
            output, message = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted", message.decode())
        self.assertGreater(json.loads(output)["requests"]["answered"], 0)

    @needs_model
    def test_nothing_is_lost_when_many_clients_come_and_leave(self):
        soak = subprocess.run([sys.executable, str(ROOT / "bench" / "e2e" / "soak.py"), "--short", "--kvern", KVERN,
                               "--model", str(MODEL), "--text", self.text.name], capture_output=True, timeout=600)
        self.assertEqual(soak.returncode, 0, soak.stdout.decode() + soak.stderr.decode())
        self.assertIn("nothing is lost", soak.stdout.decode())


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        KVERN = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
