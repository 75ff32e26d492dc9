#!/usr/bin/env python3
"""Tests of report.py: what it makes of a folder of reports, and what it leaves of the document around."""
import json
import pathlib
import tempfile
import unittest
import xml.dom.minidom

import report


def spread(median):
    return {"median": median, "min": 0.9 * median, "max": 1.1 * median}


def engine_row(test, length, **fields):
    return {"test": test, "length": length, "sequences": 1, "shared_prompt": 0, "tok_per_s": spread(1000),
            "limits": {"int8_tops": 1.5, "read_gb_per_s": 30.0}, "share_of": "int8_tops", "share": 0.36, **fields}


def kernel_row(label, **fields):
    return {"label": label, "unit": "Top/s", "rate": 1.0, "share": 0.5, "quiet_rate": 1.0, "quiet_share": 0.6,
            "samples": 3, "quiet_samples": 1, **fields}


ENGINE = {"model": "models/m.gguf", "cpu": "Some CPU", "isa": "avx512", "threads": 2,
          "results": [engine_row("prefill", 512), engine_row("decode", 0, share_of="read_gb_per_s"),
                      engine_row("batch", 0, sequences=8, shared_prompt=2048)]}
PEERS = {"model": "models/m.gguf", "peer": "llama.cpp", "flash_attention": "on", "kvern": {},
         "results": [{"case": f"decode at {length}", "test": "decode", "length": length, "kvern": spread(90),
                      "peer": spread(45), "ratio": 2.0} for length in (0, 1024)]}


class ReportTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.folder = pathlib.Path(directory.name)

    def put(self, name, *reports):
        (self.folder / name).write_text("\n".join(json.dumps(one) for one in reports), encoding="utf-8")

    def section(self):
        return report.section(report.Reports(self.folder), "2026-01-02", {})

    def test_every_kind_of_report_has_its_table(self):
        self.put("engine.json", ENGINE)
        self.put("peers.json", PEERS)
        self.put("matmul.jsonl", kernel_row("avx512 Q4_0 int8 M=512 N=8192 K=2048 threads=2"))
        self.put("attention.jsonl", kernel_row("avx512 decode head=64 threads=2", quiet_samples=0))

        section = self.section()

        self.assertIn("2026-01-02, Some CPU", section)
        self.assertIn("| prefill 512 | 1,000 (900 - 1,100) | 36.0 % of 1.5 TOPS int8 |", section)
        self.assertIn("| decode at 0 | 1,000 (900 - 1,100) | 36.0 % of 30 GB/s read |", section)
        self.assertIn("| 8 sequences, shared 2048 |", section)
        self.assertIn("| decode at 0 | 90.0 (81.0 - 99.0) | 45.0 (40.5 - 49.5) | **2.00** |", section)
        self.assertIn("| Q4_0 x int8, K = 2048 | 60 % |", section)
        self.assertIn("| decode head=64 | 1 Top/s | 50 % |", section)

    def test_products_from_memory_have_a_column_of_their_own(self):
        self.put("matmul.jsonl", kernel_row("avx512 Q4_0 int8 M=1 N=512 K=2048 threads=2"),
                 kernel_row("avx512 Q4_0 int8 M=1 N=99 K=2048 threads=2 RAM", quiet_share=0.9))

        self.assertIn("M = 1, RAM | M = 1 |", self.section())
        self.assertIn("| Q4_0 x int8, K = 2048 | 90 % | 60 % |", self.section())

    def test_a_plot_is_well_formed(self):
        self.put("engine.json", ENGINE)
        self.put("peers.json", PEERS)

        names = report.write_plots(report.Reports(self.folder), self.folder / "plots")

        self.assertEqual(names, {"m": "speed-m.svg"})
        xml.dom.minidom.parse(str(self.folder / "plots" / "speed-m.svg"))

    def test_a_single_length_is_no_plot(self):
        self.put("engine.json", ENGINE)

        self.assertEqual(report.write_plots(report.Reports(self.folder), self.folder / "plots"), {})

    def test_the_section_goes_to_the_end_first_and_is_replaced_later(self):
        once = report.replace_section("# Results\n\nText.\n", f"{report.BEGIN}\none\n{report.END}\n")
        twice = report.replace_section(once + "\n## After\n", f"{report.BEGIN}\ntwo\n{report.END}\n")

        self.assertEqual(once, f"# Results\n\nText.\n\n{report.BEGIN}\none\n{report.END}\n")
        self.assertEqual(twice, f"# Results\n\nText.\n\n{report.BEGIN}\ntwo\n{report.END}\n\n## After\n")

    def test_a_lost_mark_is_an_error_and_no_reason_to_lose_text(self):
        with self.assertRaises(ValueError):
            report.replace_section(f"{report.BEGIN}\nold\n## After\n", "new")


if __name__ == "__main__":
    unittest.main()
