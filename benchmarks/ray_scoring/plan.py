"""Write the plan for 10⁹ molecules into ``docs/scale.md``, computed from the record.

python -m benchmarks.ray_scoring.plan           # write
python -m benchmarks.ray_scoring.plan --check   # is the page up to date?
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from benchmarks.ray_scoring import RECORD, ROOT
from gad.data.atomic import write_atomic
from gad.prediction.engines.ray import RayEngine

PAGE = "docs/scale.md"
MOLECULES, NODES, CORES = 10**9, (1, 4, 16, 64), (16, 64)
_MARKS = re.compile(r"(<!-- plan -->\n).*?(<!-- /plan -->)", re.DOTALL)


def plan(record: dict[str, Any] | None) -> str:
    """The plan in Markdown."""
    if record is None:
        return f"*No record yet: `python -m benchmarks ray_scoring` makes `{RECORD}`.*\n"
    rate = record["ray"]["rows_per_second"] / record["workers"]
    middle, end = (f"{record['ray'][f'peak_megabytes_{at}']:,.0f}" for at in ("middle", "end"))
    worker = record["ray"]["peak_megabytes"] / record["workers"]
    lines = [
        (
            f"- Rate: {rate:,.0f} rows a second and core ({record['rows']:,} rows, "
            f"{record['workers']} workers, {record['machine']['processor']}), "
            f"{record['ratio']:.2f} of the local engine's; starting takes "
            f"{record['start_seconds'] + record['ray']['seconds_to_first']:.0f} s."
        ),
        f"- Work: {MOLECULES / rate / 3600:,.0f} core-hours.",
        (
            f"- Parts: {-(-MOLECULES // RayEngine().rows):,} Parquet files, together "
            f"{MOLECULES * record['output_bytes_per_row'] / 1e9:,.0f} GB."
        ),
        (
            f"- Memory: {worker / 1000:.1f} GB a core, Ray included; in all {middle} MB half-way "
            f"through the run, {end} MB at its end."
        ),
        "",
        "| hours | " + " | ".join(f"{cores} cores a node" for cores in CORES) + " |",
        "| --- | " + " | ".join("---:" for _ in CORES) + " |",
    ]
    for nodes in NODES:
        hours = [f"{MOLECULES / (rate * nodes * cores) / 3600:,.1f}" for cores in CORES]
        lines.append(f"| {nodes} node{'s' * (nodes > 1)} | {' | '.join(hours)} |")
    return "\n".join(lines) + "\n"


def filled(text: str, root: Path) -> str:
    """The page with the plan as the record has it."""
    path = root / RECORD
    record = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return _MARKS.sub(lambda marks: f"{marks[1]}{plan(record)}{marks[2]}", text)


def main() -> None:
    page = ROOT / PAGE
    text = page.read_text(encoding="utf-8")
    new = filled(text, ROOT)
    if sys.argv[1:] == ["--check"]:
        sys.exit(f"{PAGE} is out of date" if new != text else 0)
    write_atomic(page, new.encode())


if __name__ == "__main__":
    main()
