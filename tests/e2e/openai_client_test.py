#!/usr/bin/env python3
"""The official `openai` Python client, unchanged, against `kvern serve`.

  tests/e2e/openai_client_test.py build/release/kvern [unittest options]

Installs the client into .venv where it is not there yet; skipped where that fails, and without SmolLM2 in models/.
"""
import os
import pathlib
import subprocess
import sys
import time
import unittest

import serve_test

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
CLIENT = "openai==1.109.1"


def install_client():
    """Why the client cannot be had, or None. Does nothing where it is there."""
    try:
        if not PYTHON.exists():
            subprocess.run([sys.executable, "-m", "venv", str(ROOT / ".venv")], check=True, capture_output=True)
        if subprocess.run([str(PYTHON), "-c", "import openai"], capture_output=True).returncode != 0:
            subprocess.run([str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1",
                            CLIENT], check=True, capture_output=True, timeout=300)
    except (subprocess.SubprocessError, OSError) as error:
        detail = getattr(error, "stderr", None) or b""
        return f"cannot install {CLIENT}: {error} {detail.decode(errors='replace')[-300:]}"
    return None


class OpenAiClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.keys = ROOT / "build" / "openai_client_test_keys.txt"
        cls.keys.parent.mkdir(exist_ok=True)
        cls.keys.write_text("tester test-secret admin\n")
        cls.server = serve_test.Server("--kv-budget", "400MiB", "--api-keys", cls.keys)
        cls.client = cls.make_client("test-secret")
        cls.model = cls.client.models.list().data[0].id

    @classmethod
    def make_client(cls, key):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key=key, max_retries=0, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.keys.unlink()

    def test_models(self):
        self.assertEqual(self.client.models.retrieve(self.model).id, self.model)
        self.assertEqual(self.client.models.retrieve(self.model).owned_by, "kvern")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("gpt-9")

    def test_completions(self):
        answer = self.client.completions.create(model=self.model, prompt="The capital of France is", max_tokens=8,
                                                temperature=0, logprobs=2, n=2)
        self.assertIn("Paris", answer.choices[0].text)
        self.assertEqual(answer.choices[0].text, answer.choices[1].text)
        self.assertEqual(len(answer.choices[0].logprobs.tokens), 8)
        self.assertEqual((answer.usage.prompt_tokens, answer.usage.completion_tokens), (5, 16))
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)
        ids = self.client.completions.create(model=self.model, prompt=[504, 3575, 282, 4649, 314], max_tokens=8,
                                             temperature=0)
        self.assertEqual(ids.choices[0].text, answer.choices[0].text)

    def chat(self, **options):
        return self.client.chat.completions.create(
            model=self.model, messages=[{"role": "system", "content": "Be brief."},
                                        {"role": "user", "content": "What is the capital of France?"}],
            temperature=0, max_completion_tokens=32, **options)

    def test_chat(self):
        answer = self.chat(logprobs=True, top_logprobs=3, seed=1, user="u", stop=["\n\n\n"])
        self.assertGreater(len(answer.choices[0].message.content), 10)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertIn(answer.choices[0].finish_reason, ["stop", "length"])
        self.assertEqual(len(answer.choices[0].logprobs.content), answer.usage.completion_tokens)
        self.assertEqual(len(answer.choices[0].logprobs.content[0].top_logprobs), 3)

    def test_streaming(self):
        whole = self.chat()
        text, usage, reasons = "", None, []
        for chunk in self.chat(stream=True, stream_options={"include_usage": True}):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                reasons.append(choice.finish_reason)
            usage = chunk.usage or usage
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual([reason for reason in reasons if reason], [whole.choices[0].finish_reason])
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)

    def test_errors_are_those_that_the_client_knows(self):
        with self.assertRaises(openai.AuthenticationError):
            self.make_client("wrong-secret").models.list()
        with self.assertRaises(openai.BadRequestError) as caught:
            self.chat(extra_body={"top_p": "x"})
        self.assertEqual(caught.exception.param, "top_p")
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.completions.create(model="gpt-9", prompt="x")
        self.assertEqual(caught.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError):
            self.chat(response_format={"type": "json_object"})

    def test_a_stream_that_is_closed_is_cancelled(self):
        stream = self.client.completions.create(model=self.model, prompt="Once upon a time", max_tokens=4000, stream=True,
                                                extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        end = time.monotonic() + 60
        while True:
            sequences = self.client.get("/cache", cast_to=object)["sequences"]
            if sequences["running"] == 0:
                break
            self.assertLess(time.monotonic(), end)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    kvern = os.path.abspath(arguments.pop(0)) if arguments and not arguments[0].startswith("-") else serve_test.KVERN
    if not serve_test.MODEL.exists():
        print(f"skipped: {serve_test.MODEL.name} is not in models/: scripts/fetch_model.sh smollm2")
        sys.exit(0)
    if os.path.abspath(sys.prefix) != str(ROOT / ".venv"):
        if (why := install_client()) is not None:
            print("skipped:", why)
            sys.exit(0)
        os.execv(PYTHON, [str(PYTHON), __file__, kvern, *arguments])
    import openai

    serve_test.KVERN = kvern
    unittest.main(argv=[__file__, *arguments], verbosity=2)
