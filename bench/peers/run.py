#!/usr/bin/env python3
"""kvern beside llama.cpp on the same file, at the same time.

  bench/peers/setup.sh && bench/peers/run.py
  bench/peers/run.py --model models/M.gguf --prefill 512 --depth 0 4096 --batch 1 8 32 --shared-prompt 2048 --rounds 9

A round measures a case once with kvern and once with the peer, one right after the other, so that both see the same
mood of the machine. The table has medians with their spread and the ratio of the medians; the JSON file has every
sample. Both run with the same threads and f16 K and V. The peer's flash attention is on unless --flash-attn off:
prefill is faster with it, but decoding far into a context may be faster without. Prefill and decode of one sequence go
through llama-cpp-python with prompts of the same ids as kvern's; decoding many sequences at once goes through
llama-batched-bench, each sequence starting from a short prompt of its own or from one that all share.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
from row_names import name_of  # noqa: E402

PEERS = pathlib.Path(os.environ.get("KVERN_PEERS_VENV", ROOT / ".venv-peers"))
PEER_PYTHON = PEERS / "bin" / "python"
OWN_PROMPT = 16  # Tokens of each sequence's prompt where sequences are decoded together and share none.
BATCHED_BENCH = PEERS / "llama.cpp" / "bin" / "llama-batched-bench"


def round_up(value, unit):
    return -(-value // unit) * unit


class Sequence:
    """llama.cpp with one sequence: loaded once, idle while kvern is measured."""

    def __init__(self, arguments, context):
        script = pathlib.Path(__file__).with_name("llama_cpp_peer.py")
        command = [str(PEER_PYTHON), str(script), "--model", arguments.model, "--threads", str(arguments.threads),
                   "--context", str(context), "--flash-attn", arguments.flash_attn]
        # Waiting threads of the peer must not spin while kvern is measured.
        environment = dict(os.environ, OMP_WAIT_POLICY="passive") if arguments.passive else None
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self._read()

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the peer ended with code {self.process.wait()}")
        return json.loads(line)

    def measure(self, case):
        self.process.stdin.write(json.dumps(case) + "\n")
        self.process.stdin.flush()
        return self._read()["tok_per_s"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Batch:
    """llama.cpp with many sequences: a process for each sample, as llama-batched-bench measures every case once."""

    def __init__(self, arguments):
        self.base = [str(BATCHED_BENCH), "--model", arguments.model, "--threads", str(arguments.threads),
                     "--threads-batch", str(arguments.threads), "--flash-attn", arguments.flash_attn,
                     "--batch-size", "2048", "--ubatch-size", "512", "--output-format", "jsonl"]

    def measure(self, case):
        sequences, generated = case["sequences"], case["generated"]
        prompt = case["shared_prompt"] or case["length"]
        command = self.base + ["-npp", str(prompt), "-ntg", str(generated), "-npl", str(sequences)]
        if case["shared_prompt"]:
            # One cache for all: else the prompt would be copied for each sequence.
            command += ["-pps", "--kv-unified", "--ctx-size", str(prompt + sequences * generated)]
        else:
            command += ["--ctx-size", str(sequences * round_up(prompt + generated, 256))]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        rows = [json.loads(line) for line in (result.stdout + result.stderr).splitlines() if line.startswith("{")]
        if result.returncode != 0 or len(rows) != 1:
            sys.exit(f"the peer ended with code {result.returncode} and {len(rows)} rows: {' '.join(command)}\n"
                     + result.stderr[-2000:])
        return rows[0]["speed_tg"]

    def close(self):
        pass


class Kvern:
    def __init__(self, arguments):
        self.base = [arguments.kvern, "bench", "--json", "-r", "1", "-m", arguments.model,
                     "--threads", str(arguments.threads), "--activations", "int8", "--kv-type", "f16"]
        self.limits = []
        self.facts = {}

    def measure(self, case):
        lists = {"prefill": "none", "decode": "none", "batch": "none"}
        lists[case["test"]] = str(case["sequences"] if case["test"] == "batch" else case["length"])
        command = self.base + ["--prefill", lists["prefill"], "--depth", lists["decode"], "--batch", lists["batch"],
                               "--own-prompt", str(OWN_PROMPT), "--shared-prompt", str(case["shared_prompt"] or "none")]
        if case["test"] != "prefill":
            command += ["--gen", str(case["generated"])]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if result.returncode != 0:
            sys.exit(f"kvern ended with code {result.returncode}: {' '.join(command)}")
        report = json.loads(result.stdout)
        self.facts = {key: report[key] for key in ("cpu", "isa", "threads", "weight_bytes")}
        rows = [row for row in report["results"] if row["shared_prompt"] == case["shared_prompt"]]
        if not rows:
            sys.exit(f"kvern has left out {name_of(case)}: {' '.join(command)}")
        self.limits.append(rows[0]["limits"])
        return rows[0]["tok_per_s"]["median"]


def case_of(test, length, generated, sequences=1, shared_prompt=0):
    """The fields of a row of `kvern bench --json`."""
    return {"test": test, "length": length, "sequences": sequences, "shared_prompt": shared_prompt,
            "generated": generated}


def cases_of(arguments):
    cases = [case_of("prefill", length, 0) for length in arguments.prefill]
    cases += [case_of("decode", length, arguments.gen) for length in arguments.depth]
    cases += [case_of("batch", OWN_PROMPT, arguments.gen, count) for count in arguments.batch]
    for prompt in arguments.shared_prompt:
        cases += [case_of("batch", 0, arguments.gen, count, prompt) for count in arguments.batch]
    return cases


def spread(samples):
    return {"median": statistics.median(samples), "min": min(samples), "max": max(samples), "samples": samples}


def measure(case, kvern, peer, rounds):
    """All rounds of one case: the peer keeps what it has prefilled for a decode."""
    peer.measure(case)  # Warms caches and page tables; not counted.
    samples = [(kvern.measure(case), peer.measure(case)) for _ in range(rounds)]
    row = {"case": name_of(case), **case, "kvern": spread([ours for ours, _ in samples]),
           "peer": spread([theirs for _, theirs in samples])}
    row["ratio"] = row["kvern"]["median"] / row["peer"]["median"]
    return row


def measure_all(arguments):
    cases = cases_of(arguments)
    kvern, rows, peer = Kvern(arguments), [], None
    context = max((case["length"] + case["generated"] + 1 for case in cases if case["test"] != "batch"), default=0)
    for case in cases:
        kind = Batch if case["test"] == "batch" else Sequence
        if not isinstance(peer, kind):
            if peer:
                peer.close()
            peer = Batch(arguments) if kind is Batch else Sequence(arguments, context)
        rows.append(measure(case, kvern, peer, arguments.rounds))
        print(f"{len(rows)} of {len(cases)}: {rows[-1]['case']}, {rows[-1]['ratio']:.2f}x", file=sys.stderr)
    if peer:
        peer.close()
    return rows, kvern


def show(row):
    def cell(values):
        return f"{values['median']:8.1f} ({values['min']:.1f} - {values['max']:.1f})"
    return f"{row['case']:<26}{cell(row['kvern']):>30}{cell(row['peer']):>30}{row['ratio']:>9.2f}x"


def only_model():
    models = sorted((ROOT / "models").glob("*.gguf"))
    return str(models[0]) if len(models) == 1 else None


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=os.environ.get("KVERN_MODEL") or only_model())
    parser.add_argument("--kvern", default=str(ROOT / "build" / "release" / "kvern"))
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--prefill", type=int, nargs="*", default=[128, 512, 2048], help="prompt lengths")
    parser.add_argument("--depth", type=int, nargs="*", default=[0, 1024, 4096], help="where decoding begins")
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 2, 4, 8, 16, 32], help="sequences decoded at once")
    parser.add_argument("--shared-prompt", type=int, nargs="*", default=[],
                        help="every batch once more with a prompt of so many tokens that all sequences share")
    parser.add_argument("--gen", type=int, default=64, help="tokens decoded by each sequence")
    parser.add_argument("--flash-attn", choices=["on", "off"], default="on", help="in the peer")
    parser.add_argument("--passive", action=argparse.BooleanOptionalAction, default=False,
                        help="let the peer's idle threads sleep at once instead of spinning a while")
    parser.add_argument("--json", metavar="FILE", help="write all samples here")
    arguments = parser.parse_args()
    if not arguments.model:
        parser.error("no model: give --model FILE or set KVERN_MODEL")
    for file, remedy in ((arguments.model, "give --model FILE"), (arguments.kvern, "build kvern or give --kvern FILE"),
                         (PEER_PYTHON, "bench/peers/setup.sh makes it"),
                         (BATCHED_BENCH, "bench/peers/setup.sh makes it")):
        if not pathlib.Path(file).exists():
            parser.error(f"{file} is not there: {remedy}")
    return arguments


def main():
    arguments = parse_arguments()
    rows, kvern = measure_all(arguments)
    version = next((PEERS / "source").glob("complete-*")).name.removeprefix("complete-")
    limits = {key: spread([probe[key] for probe in kvern.limits]) for key in kvern.limits[0]} if kvern.limits else {}
    print(f"{kvern.facts.get('cpu', '')}, {arguments.threads} threads, {arguments.model}")
    print("probed: " + ", ".join(f"{key} {value['median']:.2f} ({value['min']:.2f} - {value['max']:.2f})"
                                 for key, value in limits.items()))
    print(f"flash attention of the peer: {arguments.flash_attn}")
    print(f"\n{'tok/s':<26}{'kvern':>30}{'llama.cpp':>30}{'ratio':>10}")
    for row in rows:
        print(show(row))
    if arguments.json:
        report = {"model": arguments.model, "threads": arguments.threads, "rounds": arguments.rounds,
                  "flash_attention": arguments.flash_attn,
                  "peer": f"llama.cpp of llama-cpp-python {version}", "kvern": kvern.facts, "limits": limits,
                  "results": rows}
        pathlib.Path(arguments.json).write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
