"""What `docs/reference/compatibility.md` calls stable, as a document; what a later one lacks."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import dagster as dg

import cdc_assets
from cdc_assets import cli
from cdc_assets.config import ReplicationConfig
from cdc_assets.config.assess import FINDINGS
from cdc_assets.operate.exposition import families
from cdc_assets.operate.numbers import Numbers
from cdc_assets.operate.status import Status
from cdc_assets.orchestration import build_definitions
from cdc_assets_tests.pages.cli_page import commands
from cdc_assets_tests.world import registry_of, write_config

Document = dict[str, Any]
OUTPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "accept-restart": ("{table}", "--dry-run"),
    "assess": ("--source", "{source}_odd"),
    "compact": ("{table}", "--dry-run"),
    "consistent list": ("{source}_cuts",),
    "drop": ("--table", "{table}", "--dry-run"),
    "history": ("{table}",),
    "maintain": ("--table", "{table}", "--dry-run"),
    "pause": ("--table", "{table}", "--dry-run"),
    "quarantine list": (),
    "rebuild": ("{table}", "--dry-run"),
    "reset": ("--table", "{table}", "--dry-run"),
    "resume": ("--table", "{table}", "--dry-run"),
    "status": (),
}
"""Arguments of the commands whose documents are recorded."""
_LOWER: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")


def promises() -> Document:
    """Those that need no stack."""
    numbers = Numbers(Status(datetime.now(UTC), (), ()), (), 0.0)
    required: dict[str, list[str]] = {}
    keys = dict(sorted(_keys(ReplicationConfig.model_json_schema(), required)))
    asked = {name: [p.name for p in each.params if p.required] for name, each in commands().items()}
    return {
        "configuration": keys,
        "commands": {name: _parameters(each) for name, each in commands().items()},
        "required": {"configuration": required, "commands": asked},
        "exit codes": {"failed": cli.FAILED, "usage": cli.USAGE},
        "metrics": {each.name: [each.type, *_labels(each)] for each in families(numbers)},
        "findings": dict.fromkeys(sorted(FINDINGS), ""),
        "python": {name: _members(getattr(cdc_assets, name)) for name in cdc_assets.__all__},
        "dagster": _dagster(),
    }


def missing(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Places at which a later document lacks or changes what an earlier one has.

    A mapping may get keys, and a list of words may get words. Bounds are those of `narrowed`.
    """
    match old, new:
        case dict(), dict():
            for key, each in old.items():
                if key == "bounds":
                    continue
                if key not in new:
                    yield f"{place}{key} is gone"
                else:
                    yield from missing(each, new[key], f"{place}{key}: ")
        case list(), list():
            yield from (f"{place}{each} is gone" for each in old if each not in new)
        case _ if old != new:
            yield f"{place}was {old!r}, is {new!r}"


def narrowed(old: Document, new: Document) -> Iterator[str]:
    """Where a later version asks for more than an earlier one: keys, parameters, values."""
    for part in ("configuration", "commands"):
        for place, names in new["required"][part].items():
            was = old["required"][part].get(place, names)
            yield from (f"{place} {each} must be given now" for each in names if each not in was)
    for key, each in old["configuration"].items():
        bounds = new["configuration"].get(key, {}).get("bounds", {})
        for name, bound in bounds.items():
            before = each["bounds"].get(name)
            if before is None or (bound > before if name in _LOWER else bound < before):
                yield f"{key}: {name} was {before}, is {bound}"


def fields_of(document: Any) -> dict[str, list[str]]:
    """The places of a document's values with the names of their types, but null's.

    Numbers, and names of tables and topics, are no fields.
    """
    found: dict[str, set[str]] = {}

    def look(value: Any, place: str) -> None:
        types = found.setdefault(place, set())
        match value:
            case dict():
                for key, each in value.items():
                    look(each, f"{place}.*" if re.search(r"\d|\.", key) else f"{place}.{key}")
            case list():
                for each in value:
                    look(each, f"{place}[]")
            case None:
                pass
            case _:
                types.add("number" if type(value) in {int, float} else type(value).__name__)

    look(document, "")
    return {place: sorted(types) for place, types in sorted(found.items())}


def _keys(
    schema: Document, required: dict[str, list[str]], place: str = "", root: Document | None = None
) -> Iterator[tuple[str, Document]]:
    """The keys of the configuration below a place, ``*`` for any name and ``[]`` for any item."""
    root = schema if root is None else root
    for each in _variants(schema, root):
        if "properties" in each:
            required[place] = [*each.get("required", ())]
        for name, value in each.get("properties", {}).items():
            key, variants = f"{place}.{name}".removeprefix("."), [*_variants(value, root)]
            bounds = {b: v[b] for v in variants for b in (*_LOWER, *_UPPER) if b in v}
            default = {"default": value["default"]} if "default" in value else {}
            types = sorted({word for variant in variants for word in _types(variant)})
            yield key, {"types": types, "bounds": bounds, **default}
            yield from _keys(value, required, key, root)
        for name, sign in (("additionalProperties", ".*"), ("items", "[]")):
            if isinstance(each.get(name), dict):
                yield from _keys(each[name], required, f"{place}{sign}", root)


def _variants(schema: Document, root: Document) -> Iterator[Document]:
    if "$ref" in schema:
        yield from _variants(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    elif "anyOf" in schema or "oneOf" in schema:
        for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            yield from _variants(each, root)
    else:
        yield schema


def _types(schema: Document) -> list[str]:
    words = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return [repr(each) for each in words] if words is not None else [schema.get("type", "any")]


def _parameters(command: click.Command) -> Document:
    return {
        each.name or "": {
            "kind": each.param_type_name,
            "names": [*each.opts, *each.secondary_opts],
            "nargs": each.nargs,
            "multiple": each.multiple,
            "flag": getattr(each, "is_flag", False),
            "choices": [*each.type.choices] if isinstance(each.type, click.Choice) else [],
        }
        for each in command.params
    }


def _labels(family: Any) -> tuple[str, ...]:
    return family._labelnames  # noqa: SLF001 (as of a family without samples)


def _members(exported: Any) -> list[str]:
    """Parameters of what is called; names of what a class offers."""
    own = [name for name in getattr(exported, "__dict__", {}) if not name.startswith("_")]
    called = inspect.signature(exported).parameters
    return sorted({*called, *(own if inspect.isclass(exported) else ())})


def _dagster() -> Document:
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder))
        made = build_definitions(config, registry_of(config, "orders"))
        repository = made.get_repository_def()
        assets = {
            node.key.to_user_string(): sorted(each.name for each in node.check_keys)
            for node in repository.asset_graph.asset_nodes
        }
        return {
            "assets and checks": dict(sorted(assets.items())),
            "jobs": sorted(each.name for each in _jobs(made)),
            "sensors": sorted(each.name for each in repository.sensor_defs),
            "schedules": sorted(each.name for each in repository.schedule_defs),
        }


def _jobs(made: dg.Definitions) -> list[dg.JobDefinition]:
    found = made.get_repository_def().get_all_jobs()
    return [each for each in found if not each.name.startswith("__")]
