"""Keeps alerts that a receiver did not accept, and sends them once it does.

Dagster evaluates the failure of a run once, whether or not its alert could be posted.

So that alerts that nobody ever accepts neither fill a disk nor keep others waiting, few are tried
at once, in turn, and those that are too many or too old are dropped. How many these are is an
alert of its own (`DROPPED`), which waits with the others and is dropped by nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast

from cdc_assets.effects import effect
from cdc_assets.errors import UnreachableError
from cdc_assets.files import as_os_errors, files_at, registry_path, replace_file
from cdc_assets.operate.receivers import Receiver, RefusedError, deliver

ATTEMPTS: Final = 2
AT_ONCE: Final = 10
DROPPED_AT_ONCE: Final = 500
MOST: Final = 1_000
OLDEST: Final = timedelta(days=7)
DROPPED: Final = "dropped"
"""The name of the alert that says how many were dropped; that of a run is a UUID."""

_KEPT_AT: Final = "kept_at"
"""The key of our own in a document, which is not posted; earlier versions wrote none."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResendResult:
    """What became of the alerts that are kept.

    Attributes:
        names: those sent.
        problem: why the rest is still kept.
        dropped: how many were dropped this time.
    """

    names: tuple[str, ...] = ()
    problem: str = ""
    dropped: int = 0


class UnsentAlerts:
    """The alerts that are kept, each a JSON document under a folder path or fsspec URL.

    A process that dies between sending one and forgetting it has it sent once more.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files, self._root = files_at(url)
        self._last = ""

    @classmethod
    def of_registry(cls, registry_url: str, receiver: str = "") -> UnsentAlerts:
        """Returns the alerts that belong to a registry, and to a receiver by its name."""
        return cls(registry_path(registry_url, f"unsent{receiver and '.'}{receiver}"))

    def keep(self, name: str, document: Mapping[str, Any], now: datetime) -> None:
        """Keeps an alert, before it has the receiver's form.

        Args:
            name: of the alert; another one of that name is replaced.
            document: its `json` form.
            now: aware.

        Raises:
            UnreachableError: if the place does not answer.
        """
        self._write(self._file(name), {**document, _KEPT_AT: now.isoformat()})

    def send(self, receiver: Receiver, now: datetime) -> ResendResult:
        """Sends up to `AT_ONCE` of what is kept, up to the first that the receiver is away for.

        One that it refuses for what it is keeps no other waiting. It is tried again when its turn
        comes: another `alerts.form` may be what it needs.

        Raises:
            UnreachableError: if the place does not answer.
            ConfigError: if the receiver's secret is not set, or is none.
        """
        kept = self._kept()
        old = self._beyond(kept)[:DROPPED_AT_ONCE]
        sent, problem = list[str](), ""
        for file in self._turn([each for each in kept if each not in old]):
            self._last, document = file, self._read(file)
            if document is None:
                self._forget(file)
            elif self._is_old(file, document, now):
                old.append(file)
            else:
                try:
                    deliver(receiver, _shown(document), ATTEMPTS)
                except UnreachableError as away:
                    problem = str(away)
                    break
                except RefusedError as refused:
                    problem = f"{refused}, or delete {file}"
                    continue
                sent.append(_name(file))
                self._forget(file)
        self._drop(old, now)
        return ResendResult(tuple(sent), problem, len(old))

    def _turn(self, kept: list[str]) -> list[str]:
        """Returns those whose turn it is: the ones after the last that was tried, and so round."""
        after = [each for each in kept if each > self._last]
        return [*after, *(each for each in kept if each <= self._last)][:AT_ONCE]

    def _beyond(self, kept: list[str]) -> list[str]:
        """Returns the oldest of those that are too many."""
        runs = [each for each in kept if _name(each) != DROPPED]
        if len(runs) <= MOST:
            return []
        ages = {each: str((self._read(each) or {}).get(_KEPT_AT, "")) for each in runs}
        return sorted(runs, key=ages.__getitem__)[: len(runs) - MOST]

    def _is_old(self, file: str, document: Mapping[str, Any], now: datetime) -> bool:
        if _name(file) == DROPPED:
            return False
        try:
            return now - datetime.fromisoformat(document[_KEPT_AT]) > OLDEST
        except (KeyError, TypeError, ValueError):  # it is counted from now on
            self.keep(_name(file), document, now)
            return False

    def _drop(self, files: Sequence[str], now: datetime) -> None:
        """Counts alerts among the dropped ones, then drops them; a crash counts them twice."""
        if not files:
            return
        before = self._read(self._file(DROPPED)) or {}
        count, since = before.get("count", 0) + len(files), before.get("since", now.isoformat())
        text = (
            f"cdc_assets: {count:,} alerts of failed runs were dropped since {since}: the receiver "
            f"had accepted none of them for {OLDEST.days} days, or there were more than {MOST:,}. "
            f"The last is that of run {_name(files[-1])}: look at the failed runs in Dagster's UI"
        )
        _log.warning("%s", text)
        self.keep(DROPPED, {"text": text, "count": count, "since": since}, now)
        for file in files:
            self._forget(file)

    def _file(self, name: str) -> str:
        return f"{self._root}/{name}.json"

    def _write(self, file: str, document: Mapping[str, Any]) -> None:
        try:
            with effect("alerts: write"):
                replace_file(self._files, file, json.dumps(document).encode())
        except OSError as error:
            raise self._unreachable() from error

    def _kept(self) -> list[str]:
        try:
            with as_os_errors():
                files = cast("list[str]", self._files.ls(self._root, detail=False))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreachable() from error
        return sorted(file for file in files if file.endswith(".json"))

    def _read(self, file: str) -> dict[str, Any] | None:
        """Returns an alert; None if another process has sent it, or the document is none."""
        try:
            with as_os_errors():
                content = cast("bytes", self._files.cat_file(file))
            return dict(json.loads(content))
        except FileNotFoundError:
            return None
        except (
            ValueError,
            TypeError,
        ):  # nothing of ours: what is written here is replaced as a whole
            _log.warning("%s is no JSON document: it is removed, and no alert is sent for it", file)
            return None
        except OSError as error:
            raise self._unreachable() from error

    def _forget(self, file: str) -> None:
        try:
            with effect("alerts: write"), as_os_errors():
                self._files.rm_file(file)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreachable() from error

    def _unreachable(self) -> UnreachableError:
        what = "alerts that are still to be sent cannot be read or written"
        return UnreachableError(what, where=self.url, remedy="check that the place is writable")


def _name(file: str) -> str:
    return file.rpartition("/")[2].removesuffix(".json")


def _shown(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in document.items() if name != _KEPT_AT}
