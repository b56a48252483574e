"""Reads a YAML file into a `ReplicationConfig`, or raises an error naming file, line and key.

Messages repeat keys, never values: a value may be a secret in the wrong place.

Reads a YAML document with the lines of its keys, strictly: no repeated keys, no leaks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from cdc_assets.config.model import CONFIG_FILE, ReplicationConfig
from cdc_assets.config.secret import TEMPLATE, Variable
from cdc_assets.config.strict import BASE_DIRECTORY, UNKNOWN_KEY, as_mapping, nearest
from cdc_assets.errors import ConfigError

CONFIG_VARIABLE = "CDC_ASSETS_CONFIG"
DEFAULT_FILE = "replication.yaml"

_Place = tuple[int | str, ...]
"""The keys and numbers that lead to a value of the document."""


@dataclass(frozen=True, slots=True)
class DeprecatedKey:
    """A key that a later version removes, or that an earlier version had.

    Attributes:
        key: the place of the key, ``*`` for any name or number: ``sources.*.tables.*.old``.
        replacement: the key, or the step, that takes its place.
        since: the version that deprecated it.
    """

    key: str
    replacement: str
    since: str

    def is_at(self, place: Sequence[int | str]) -> bool:
        """Whether a place of the document is that of the key."""
        parts = self.key.split(".")
        pairs = zip(parts, place, strict=False)
        return len(parts) == len(place) and all(p in {"*", str(found)} for p, found in pairs)

    @property
    def remedy(self) -> str:
        """The step for the person whose file has the key."""
        return f"write {self.replacement} instead (since version {self.since})"


DEPRECATED: Final[tuple[DeprecatedKey, ...]] = ()
"""An entry stays when the key goes: the message about the unknown key then names its replacement.
See docs/reference/compatibility.md#deprecation."""

_VARIANTS = frozenset(
    {"str", "Secret", "IamPassword", "SparkHook", "function-before[_only_its_place(), Secret]"}
)
_PLAIN_WORDS = {
    "model_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def load_config(path: Path | None = None) -> ReplicationConfig:
    """Reads the configuration: ``path``, else ``$CDC_ASSETS_CONFIG``, else ``./replication.yaml``.

    Raises:
        ConfigError: names the file, the line, the key and what to do.
    """
    file = config_file(path)
    return parse_config(_text(file), file)


def config_file(path: Path | None = None) -> Path:
    """Returns ``path``, else ``$CDC_ASSETS_CONFIG``, else ``./replication.yaml``."""
    return Path(path or os.environ.get(CONFIG_VARIABLE) or DEFAULT_FILE).absolute()


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        reason = "does not exist" if isinstance(error, FileNotFoundError) else "cannot be read"
        msg = f"the configuration file {reason}"
        remedy = f"create it, or name another one in ${CONFIG_VARIABLE}"
        raise ConfigError(msg, where=str(file), remedy=remedy) from error


def parse_config(text: str, file: Path | None = None) -> ReplicationConfig:
    """Reads the configuration from text; ``file`` names it and anchors relative paths.

    Raises:
        ConfigError: see `load_config`.
    """
    name = str(file or "configuration")
    root, data = read_document(text, name)
    context = {CONFIG_FILE: file, BASE_DIRECTORY: file.parent} if file else {}
    return _validated(data, root, name, context)


def read_config(data: Mapping[str, Any], folder: Path, name: str) -> ReplicationConfig:
    """Reads the configuration from its content.

    Args:
        data: the document.
        folder: against which relative paths resolve.
        name: of the document, for errors.

    Raises:
        ConfigError: see `load_config`; without lines.
    """
    return _validated(data, None, name, {BASE_DIRECTORY: folder})


def requirements_of(file: Path) -> str:
    """Returns the part of a component's ``defs.yaml`` that declares a file's environment variables.

    Empty if the file names none, be it as ``{env: NAME}`` or ``{{ env.NAME }}``. Its content need
    not be correct, and no variable is read.

    Raises:
        ConfigError: if the file cannot be read, or is not YAML.
    """
    names = sorted({*_variables(read_document(_text(file), str(file))[1], set())})
    return yaml.safe_dump({"requirements": {"env": names}}, sort_keys=False) if names else ""


def deprecations_of(file: Path) -> tuple[str, ...]:
    """Returns a warning for each deprecated key of a file, with its line and its replacement.

    Raises:
        ConfigError: if the file cannot be read, or is not YAML.
    """
    root, data = read_document(_text(file), str(file))
    return tuple(
        f"{_where(_key(place), line_of(root, place), str(file))} is deprecated: {each.remedy}"
        for place in _places(data)
        for each in DEPRECATED
        if each.is_at(place)
    )


def _places(data: object, place: _Place = ()) -> Iterator[_Place]:
    """Yields the places of all keys of a document, in its order."""
    is_list = isinstance(data, list)
    items = enumerate(cast("list[object]", data)) if is_list else as_mapping(data).items()
    for key, value in items:
        here = (*place, key if isinstance(key, int) else str(key))
        yield here
        yield from _places(value, here)


def _variables(data: object, seen: set[int]) -> Iterator[str]:
    """Yields the names of environment variables; ``seen`` are parts that are shared."""
    if isinstance(data, str):
        yield from (each[1] for each in TEMPLATE.finditer(data))
    elif isinstance(data, list | Mapping) and id(cast("object", data)) not in seen:
        seen.add(id(cast("object", data)))
        fields = as_mapping(cast("object", data))
        if [*fields] == ["env"] and isinstance(name := fields["env"], str):
            yield name
        for each in fields.values() if fields else cast("list[object]", [*data]):
            yield from _variables(each, seen)


def _validated(
    data: Any, root: yaml.Node | None, name: str, context: dict[str, Path]
) -> ReplicationConfig:
    filling, config, problems = _Filling(), None, list[_Problem]()
    try:
        config = ReplicationConfig.model_validate(filling.of(data, ()), context=context)
    except ValidationError as error:
        # It holds the input, so it must not be chained.
        problems = [_problem(each, root) for each in error.errors(include_url=False)]
    used = ((place, each.name) for place, each in filling.used if not each and not each.is_secret)
    unset = [_unset(place, each, root) for place, each in (*filling.unset, *used)]
    unset += [_in_key(place, root) for place in filling.keys]
    named = {each.key for each in unset}
    problems = [*unset, *(each for each in problems if each.key not in named)]
    if config is None or problems:
        raise _combined(problems, name)
    return config


@dataclass(slots=True)
class _Filling:
    """Fills in the variables that a document's texts name as ``{{ env.NAME }}``.

    Attributes:
        used: variables that are a whole text.
        unset: names of those that are not set, and are a part of a text.
        keys: the places of keys that name a variable.
        done: the parts of the document that were visited, by identity: some may be shared, or be a
            part of themselves.
    """

    used: list[tuple[_Place, Variable]] = field(default_factory=list[tuple[_Place, Variable]])
    unset: list[tuple[_Place, str]] = field(default_factory=list[tuple[_Place, str]])
    keys: list[_Place] = field(default_factory=list[_Place])
    done: dict[int, Any] = field(default_factory=dict[int, Any])

    def of(self, value: Any, place: _Place) -> Any:
        """Returns a part of the document, which is at a place, with its variables."""
        if isinstance(value, str):
            return self._text(value, place)
        known = id(cast("object", value))
        if known in self.done or not isinstance(value, dict | list):
            return self.done.get(known, value)
        self.done[known] = value
        made: Any
        if isinstance(value, list):
            items = enumerate(cast("list[Any]", value))
            made = [self.of(each, (*place, at)) for at, each in items]
        else:
            keys = cast("dict[Any, Any]", value).items()
            self.keys += [(*place, key) for key, _ in keys if TEMPLATE.search(str(key))]
            made = {key: self.of(each, (*place, key)) for key, each in keys}
        self.done[known] = made
        return made

    def _text(self, text: str, place: _Place) -> str:
        if whole := TEMPLATE.fullmatch(text.strip()):
            self.used.append((place, variable := Variable(whole[1])))
            return variable
        names = (each[1] for each in TEMPLATE.finditer(text))
        self.unset += [(place, name) for name in names if not os.environ.get(name)]
        return TEMPLATE.sub(lambda found: os.environ.get(found[1], ""), text)


def _unset(place: _Place, name: str, root: yaml.Node | None) -> _Problem:
    what = f"the environment variable {name} is not set"
    return _Problem(what, _key(place), line_of(root, place), f"export {name}=… before starting")


def _in_key(place: _Place, root: yaml.Node | None) -> _Problem:
    what = "a key cannot name an environment variable: it would be taken as it is"
    return _Problem(what, _key(place), line_of(root, place), "write the name itself")


@dataclass(frozen=True, slots=True)
class _Problem:
    what: str
    key: str
    line: int | None
    remedy: str


def _problem(error: ErrorDetails, root: yaml.Node | None) -> _Problem:
    context = cast("Mapping[str, Any]", error.get("ctx", {}))
    location = [part for part in error["loc"] if part not in _VARIANTS]
    what, remedy = _words(error, context)
    if error["type"] == UNKNOWN_KEY:
        location.append(str(context["key"]))
        was = next((each for each in DEPRECATED if each.is_at(location)), None)
        what, remedy = (f"{what}: it was removed", was.remedy) if was else (what, remedy)
    return _Problem(what, _key(location) or "(top level)", line_of(root, location), remedy)


def _words(error: ErrorDetails, context: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the problem and the remedy."""
    match error["type"]:
        case "unknown_key":
            return f"unknown key {context['key']!r}", str(context["remedy"])
        case "refused":
            return str(context["what"]), str(context["remedy"])
        case "missing":
            return f"{error['loc'][-1]} is missing", "add it"
        case "literal_error":
            return "is not one of the choices", _choice(error["input"], str(context["expected"]))
        case "string_type" if not isinstance(error["input"], list | dict | None):
            return _PLAIN_WORDS["string_type"], "write it in quotes"
        case other:
            return _plain_words(other, context) or error["msg"], ""


def _plain_words(kind: str, context: Mapping[str, Any]) -> str | None:
    if kind in _BOUNDS:
        bound, key = _BOUNDS[kind]
        return f"must be {bound} {context[key]:.15g}"
    return _PLAIN_WORDS.get(kind)


def _choice(given: object, expected: str) -> str:
    """Returns the nearest choice. The value itself is not repeated: it might be a secret."""
    close = nearest(str(given), re.findall(r"'([^']*)'", expected))
    return f"did you mean {close!r}?" if close else f"choose {expected}"


def _combined(problems: list[_Problem], file: str) -> ConfigError:
    if len(problems) == 1:
        only = problems[0]
        return ConfigError(only.what, where=_where(only.key, only.line, file), remedy=only.remedy)
    lines = [
        str(ConfigError(each.what, where=_where(each.key, each.line, ""), remedy=each.remedy))
        for each in problems
    ]
    what = f"{len(problems)} problems in the configuration"
    return ConfigError(what, where=file, remedy="\n  - ".join(["correct each:", *lines]))


def _key(place: Sequence[int | str]) -> str:
    return ".".join(map(str, place))


def _where(key: str, line: int | None, file: str) -> str:
    at = f"line {line}" if line else ""
    place = f"{file}:{line}" if file and line else file or at
    return " ".join(part for part in (place, key) if part)


_PARSER: Final[type[yaml.SafeLoader]] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Ten times as fast in C, which all wheels of PyYAML have."""
_DEEPEST: Final = 100
"""Most mappings and lists within each other: reading deeper ones in C would end the process."""
_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_ODD_NUMBER = re.compile(r"[-+]?0[0-9_]+|.*:.*")
"""Numbers that YAML reads to other bases than they seem to have: ``0100`` is 64, ``1:30`` is 90."""


class _Loader(_PARSER):
    """Names the line of a value that its tag does not allow, such as a date in month 13.

    Refuses numbers that are not what they seem to be.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag.endswith((":int", ":float")) and _ODD_NUMBER.fullmatch(str(node.value)):
            what = "YAML reads a number with a leading zero to base 8, with a colon to base 60"
            remedy = "write it without, or as text in quotes"
            raise _Refused(what, node.start_mark, remedy)
        try:
            return super().construct_object(node, deep)  # pyright: ignore[reportUnknownMemberType]
        except ValueError:
            what = f"not valid YAML: the value is no {node.tag.rpartition(':')[2]}"
            raise _Refused(what, node.start_mark) from None


class _Refused(yaml.YAMLError):
    def __init__(self, what: str, mark: Any, remedy: str = "check that line") -> None:
        super().__init__()
        self.what, self.line, self.remedy = what, mark.line + 1, remedy


def read_document(text: str, name: str) -> tuple[yaml.Node | None, Any]:
    """Returns the document's node tree (for `line_of`) and its value.

    Raises:
        ConfigError: if it is not YAML, or a key is repeated. Never quotes the document.
    """
    try:
        _require_shallow(text)
        loader: Any = _Loader(text)
        root = loader.get_single_node()
        _refuse_repeated_keys(root)
        return root, loader.construct_document(root) if root is not None else {}
    except _Refused as error:
        where = f"{name}:{error.line}"
        raise ConfigError(error.what, where=where, remedy=error.remedy) from None
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        what = f"not valid YAML: {_QUOTED.sub(_cut, error.problem or 'cannot be parsed')}"
        raise ConfigError(what, where=f"{name}{line}", remedy="check that line") from None
    except (yaml.YAMLError, UnicodeEncodeError):
        msg = "not valid YAML: it holds characters that YAML does not allow"
        raise ConfigError(msg, where=name, remedy="save it as UTF-8 text") from None


def _require_shallow(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_PARSER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            msg = "not valid YAML: nested too deeply"
            raise _Refused(msg, event.start_mark)


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
                msg = f"the key {key.value!r} is given twice"
                raise _Refused(msg, key.start_mark, "keep one")
            seen.add(str(key.value))
            _refuse_repeated_keys(value, visited)
