"""One graph whose nodes have features and classes, from tables, from a saved ``Data``, by name.

========  ==============================================================================
``graph``   the graph itself, and edges made undirected
``tables``  a table of nodes and a table of edges
``saved``   a PyTorch Geometric ``Data`` saved by ``torch.save``, opened without running anything
========  ==============================================================================
"""

from __future__ import annotations

from pathlib import Path

from gad.data.nodes.graph import DEGREE_FEATURES, NodeGraph, NodeReject
from gad.data.nodes.saved import from_pyg, load_saved
from gad.data.nodes.tables import NodeColumns, load_tables, write_rejects

__all__ = [
    "DEGREE_FEATURES",
    "NodeColumns",
    "NodeGraph",
    "NodeReject",
    "from_pyg",
    "load_nodes",
    "load_saved",
    "load_tables",
    "write_rejects",
]

_SAVED = (".pt", ".pth")


def load_nodes(
    data: str | Path, edges: str | Path | None = None, columns: NodeColumns | None = None
) -> NodeGraph:
    """A graph by what a user names: a known set, a saved ``Data``, a table of nodes, or a folder.

    Args:
        data: ``cora``, …; a file ``*.pt``; a table of nodes; or a folder with ``nodes.csv`` and
            ``edges.csv`` (any format of tables).
        edges: the table of edges; by default the file ``edges.*`` beside the table of nodes.
        columns: which columns are what; guessed if left out.
    """
    from gad.data.known.nodes import KNOWN_NODES, load_known_nodes

    path = Path(data)
    if not path.exists() and str(data).lower() in KNOWN_NODES:
        return load_known_nodes(str(data))
    if path.suffix.lower() in _SAVED:
        return load_saved(path)
    if not path.exists():
        raise FileNotFoundError(
            f"{data}: there is no such file, and no known set of that name; the known sets are "
            f"{', '.join(KNOWN_NODES)}"
        )
    if path.is_dir():
        path, edges = _in_folder(path, "nodes"), edges or _in_folder(path, "edges")
    return load_tables(path, edges or _in_folder(path.parent, "edges"), columns)


def _in_folder(folder: Path, stem: str) -> Path:
    """The one table called so, whatever its format."""
    found = sorted(p for p in folder.glob(f"{stem}.*") if p.is_file())
    if len(found) != 1:
        there = "there is none" if not found else f"there are {', '.join(p.name for p in found)}"
        how = "name the table itself" if stem == "nodes" else "name it with --edges"
        raise FileNotFoundError(
            f"{folder}: looked for one table {stem}.csv, .tsv or .parquet, but {there}; {how}"
        )
    return found[0]
