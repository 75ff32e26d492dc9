"""Names of the rows of `kvern bench`, which bench/peers/run.py measures too and bench/e2e/report.py tabulates."""


def name_of(row):
    if row["test"] == "prefill":
        return f"prefill {row['length']}"
    if row["test"] == "decode":
        return f"decode at {row['length']}"
    shared = f", shared {row['shared_prompt']}" if row["shared_prompt"] else ""
    return f"{row['sequences']} sequence{'s' if row['sequences'] > 1 else ''}{shared}"
