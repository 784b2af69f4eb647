"""The example in the README runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_example_runs(capsys):
    examples = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert examples
    for code in examples:
        exec(compile(code, "README.md", "exec"), {})
    assert "torch.Size([6, 8])" in capsys.readouterr().out
