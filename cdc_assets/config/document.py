"""Reads a YAML document with the lines of its keys, strictly: no repeated keys, no leaks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from cdc_assets.errors import ConfigError

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")


class _Repeated(yaml.YAMLError):
    def __init__(self, key: str, line: int) -> None:
        super().__init__()
        self.key, self.line = key, line


def read_document(text: str, name: str) -> tuple[yaml.Node | None, Any]:
    """Returns the document's node tree (for `line_of`) and its value.

    Raises:
        ConfigError: if it is not YAML, or a key is repeated. Never quotes the document.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        _refuse_repeated_keys(root)
        return root, yaml.safe_load(text) if root is not None else {}
    except _Repeated as error:
        msg = f"the key {error.key!r} is given twice"
        raise ConfigError(msg, where=f"{name}:{error.line}", remedy="keep one") from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        what = f"not valid YAML: {_QUOTED.sub(_cut, error.problem or 'cannot be parsed')}"
        raise ConfigError(what, where=f"{name}{line}", remedy="check that line") from None
    except yaml.YAMLError:
        msg = "not valid YAML: it holds characters that YAML does not allow"
        raise ConfigError(msg, where=name, remedy="save it as UTF-8 text") from None


def line_of(root: yaml.Node | None, location: Sequence[int | str]) -> int | None:
    """Returns the line (from 1) of the key at a location, or of its nearest existing parent."""
    line, node = None, root
    for part in location:
        found = _child(node, part)
        if found is None:
            break
        line, node = found
    return line


def _child(node: yaml.Node | None, part: int | str) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(part):
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        value = node.value[part]
        return value.start_mark.line + 1, value
    return None


def _cut(quoted: re.Match[str]) -> str:
    """Keeps single characters and YAML's own ``<names>``; cuts what may be from the document."""
    inner = quoted[1] or quoted[2] or ""
    return quoted[0] if len(inner) <= 1 or inner.startswith("<") else "…"


def _refuse_repeated_keys(node: yaml.Node | None, seen_nodes: set[int] | None = None) -> None:
    visited = set[int]() if seen_nodes is None else seen_nodes
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_repeated_keys(item, visited)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise _Repeated(key.value, key.start_mark.line + 1)
            seen.add(str(key.value))
            _refuse_repeated_keys(value, visited)
