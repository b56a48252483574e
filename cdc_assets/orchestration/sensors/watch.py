"""Defines the sensor `watch`, which posts each problem to each receiver once, and its recovery.

It also posts that it cannot look: then nobody knows whether anything else is wrong. A look that
takes too long is not waited for, since Dagster would end the whole tick, and with it every alert;
the next tick takes up its result.

A receiver that is down is tried again at each tick, also with failed runs that the sensor `alerts`
could not post; it blocks nothing, as only this sensor waits for it, and for all at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import dagster as dg

from cdc_assets.changes.alerting import AlertFinding, AlertKind
from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError, TransientError, UnreachableError, message_of
from cdc_assets.operate.alerts import AlertBook, News, tell
from cdc_assets.operate.findings import ALL, THE_LOOK, CheckOutcome, MonitoredState, of_problem
from cdc_assets.operate.known_tables import replicated
from cdc_assets.operate.numbers import read_numbers
from cdc_assets.operate.receivers import Receiver, beat, receivers_of
from cdc_assets.operate.services import Clock, Services, utc_now
from cdc_assets.operate.unsent import ResendResult, UnsentAlerts
from cdc_assets.orchestration.keys import CHECK_MATCHES, CHECK_OFFSETS, named, table_key
from cdc_assets.orchestration.mount import sensor_status
from cdc_assets.registry import Registry, TableEntry

INTERVAL_SECONDS: Final = 60
LOOK_SECONDS: Final = 28.0
"""Of the 60 s that Dagster gives a tick; messages take the rest."""
_AT_ONCE: Final = 500
_BEFORE: Final = 10
"""How many evaluations are searched for one that could tell, where the newest could not."""

Outcome = tuple[bool | None, str]

_KINDS: Final = {CHECK_OFFSETS: AlertKind.OFFSETS_GAP, CHECK_MATCHES: AlertKind.ROWS_DIFFER}


def watch_sensor(
    config: ReplicationConfig, loaded: Registry, clock: Clock = utc_now
) -> dg.SensorDefinition:
    """Returns the sensor that looks at everything and posts news.

    Without a receiver and a heartbeat it does nothing. It reads the registry at each tick: a table
    that is not loaded yet may fail, too.
    """
    del loaded
    watch = _Watch(config, clock)

    def evaluate(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        if not receivers_of(config.alerts) and config.alerts.heartbeat is None:
            why = "alerts.webhook is not configured, nor is alerts.apprise"
            return dg.SensorResult(skip_reason=why)
        return watch.tick(context)

    return dg.SensorDefinition(
        name=named(config, "watch"),
        evaluation_fn=evaluate,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=sensor_status(config),
        description="Posts what is wrong to the receivers of alerts, once, and its recovery.",
    )


@dataclass(frozen=True, slots=True)
class _Posted:
    """What became of the news and of failed runs.

    Attributes:
        sent: alerts that were accepted.
        problems: why others were not.
        is_accepted: whether all news were accepted.
    """

    sent: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    is_accepted: bool = True


def _together(posted: Sequence[_Posted]) -> _Posted:
    """Returns what became of them at all receivers; equal words are said once."""
    sent = dict.fromkeys(word for each in posted for word in each.sent)
    problems = dict.fromkeys(word for each in posted for word in each.problems)
    return _Posted((*sent,), (*problems,), all(each.is_accepted for each in posted))


class _Outlet:
    """A receiver with its records."""

    def __init__(self, receiver: Receiver, registry_url: str) -> None:
        self._receiver = receiver
        self._book = AlertBook.of_registry(registry_url, receiver.name)
        self._unsent = UnsentAlerts.of_registry(registry_url, receiver.name)

    def post(self, news: News, now: datetime) -> _Posted | CdcError:
        """Posts the news of tables, then failed runs that were not accepted before."""
        try:
            done = tell(news, self._receiver, self._book)
        except CdcError as problem:  # its secret: a person must act, and others are heard meanwhile
            return problem
        runs = self._runs(now) if done.is_heard else ResendResult()
        dropped = f"{runs.dropped} alerts dropped" if runs.dropped else ""
        sent = (*(f"run {each}" for each in runs.names), *(f"{m.id} {m.change}" for m in done.sent))
        problems = filter(None, (done.problem, runs.problem, dropped))
        return _Posted(sent, (*problems,), not done.problem)

    def _runs(self, now: datetime) -> ResendResult:
        try:
            return self._unsent.send(self._receiver, now)
        except CdcError as problem:  # what is kept is posted once its place is there again
            return ResendResult(problem=str(problem))


class _Watch:
    """The sensor's memory: what it remembers for as long as the registry's folder is away."""

    def __init__(self, config: ReplicationConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._services = Services(config, clock)
        found = receivers_of(config.alerts)
        self._outlets = [_Outlet(each, config.registry) for each in found]
        self._looking: _Looking | None = None

    def tick(self, context: dg.SensorEvaluationContext) -> dg.SensorResult:
        """Looks and tells; fails after that if the look failed for a reason of its own."""
        alerts = self._config.alerts
        looked = self._look(context.instance)
        if isinstance(looked, MonitoredState):
            news = News(looked.findings(alerts), looked.judges, looked.numbers.status.at)
        else:
            news = News([_blind(looked)], _judges_nothing, self._clock())
        posted = self._post(news)
        problems = [*posted.problems]
        if isinstance(looked, MonitoredState) and posted.is_accepted:
            problems += filter(None, [beat(alerts)])
        for problem in problems:
            context.log.warning(problem)
        if isinstance(looked, Exception) and not isinstance(looked, TransientError):
            raise looked
        return dg.SensorResult(skip_reason=_summary(posted.sent, problems, looked))

    def _post(self, news: News) -> _Posted:
        """Posts to all receivers at the same time: one that is slow delays no other.

        Raises:
            CdcError: if the secret of one is not set, or is none; the others have got theirs.
        """
        now = self._clock()
        with ThreadPoolExecutor(max(1, len(self._outlets))) as pool:
            posted = [*pool.map(lambda each: each.post(news, now), self._outlets)]
        for each in posted:
            if isinstance(each, CdcError):
                raise each
        return _together([each for each in posted if isinstance(each, _Posted)])

    def _look(self, instance: dg.DagsterInstance) -> MonitoredState | Exception:
        """Returns a look, or why there is none; a look that is under way is not begun again."""
        if self._looking is None:
            self._looking = _Looking(lambda: _taken(self._services, instance))
        found = self._looking.result(LOOK_SECONDS)
        if found is None:
            what = f"a look at everything has not ended within {LOOK_SECONDS:g} s: a part is silent"
            return UnreachableError(what, where=THE_LOOK, remedy="cdc-assets status names it")
        self._looking = None
        return found


class _Looking:
    """A look that is being taken, in a thread of its own."""

    def __init__(self, take: Callable[[], MonitoredState]) -> None:
        self._result: MonitoredState | Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(take,), daemon=True)
        self._thread.start()

    def result(self, seconds: float) -> MonitoredState | Exception | None:
        """Returns the look or its error; None if it has not ended after so many seconds."""
        self._thread.join(seconds)
        return self._result

    def _run(self, take: Callable[[], MonitoredState]) -> None:
        try:
            self._result = take()
        except Exception as error:
            self._result = error


def _taken(services: Services, instance: dg.DagsterInstance) -> MonitoredState:
    numbers = read_numbers(services)
    entries = replicated(services.config, services.registry.load())
    tables = numbers.status.tables
    stored = next((each.survey.entry.target for each in tables if each.survey.state), None)
    answers = services.parts.ask((each.table.source for each in tables), stored)
    return MonitoredState(numbers, answers, _checked(services.config, entries, instance))


def _checked(
    config: ReplicationConfig, entries: Sequence[TableEntry], instance: dg.DagsterInstance
) -> tuple[CheckOutcome, ...]:
    """Returns the last outcomes of the checks that have an alert; none of one never evaluated.

    Runs and the sensor `replication_slo` have evaluated them; nothing is judged here. An evaluation
    that could not look, and a check that is under way, say nothing about the table.
    """
    keys = {
        dg.AssetCheckKey(table_key(config, entry), check): (entry, kind)
        for entry in entries
        for check, kind in _KINDS.items()
    }
    return tuple(
        CheckOutcome(kind, entry.table, is_red, words)
        for key, (is_red, words) in _newest(instance, list(keys))
        for entry, kind in [keys[key]]
    )


def _newest(
    instance: dg.DagsterInstance, keys: Sequence[dg.AssetCheckKey]
) -> Iterator[tuple[dg.AssetCheckKey, Outcome]]:
    """Yields the newest outcome of each check that has one, if possible one that could tell."""
    storage = instance.event_log_storage
    for start in range(0, len(keys), _AT_ONCE):
        found = storage.get_latest_asset_check_execution_by_key(keys[start : start + _AT_ONCE])
        for key, record in found.items():
            outcome = _outcome(record.event)
            if outcome[0] is None:
                before = storage.get_asset_check_execution_history(key, limit=_BEFORE)
                outcomes = (_outcome(each.event) for each in before)
                outcome = next((each for each in outcomes if each[0] is not None), outcome)
            yield key, outcome


def _outcome(entry: dg.EventLogEntry | None) -> Outcome:
    """Returns whether a check was red and its words; None for one that is under way, too."""
    event = entry.dagster_event if entry else None
    found = event.event_specific_data if event else None
    if not isinstance(found, dg.AssetCheckEvaluation):
        return None, ""
    return _is_red(found), found.description or ""


def _is_red(found: dg.AssetCheckEvaluation) -> bool | None:
    """Returns whether a check found what it looks for; None if it says that it could not tell."""
    said = {name: each.value for name, each in found.metadata.items()}
    if found.check_name == CHECK_OFFSETS:
        return _count(said, "gaps")
    if said.get("compared") is not True:
        return None
    if found.passed:
        return False
    return True if found.severity is dg.AssetCheckSeverity.ERROR else None


def _count(said: Mapping[str, object], name: str) -> bool | None:
    count = said.get(name)
    return count > 0 if isinstance(count, int) else None


def _blind(error: Exception) -> AlertFinding:
    """Returns the finding that nothing can be looked at, at once unless it may pass by itself."""
    if isinstance(error, CdcError):
        return of_problem(error)
    words = f"watch failed: {message_of(error)} → cdc-assets status"
    return AlertFinding(AlertKind.CANNOT_LOOK, ALL, THE_LOOK, words, timedelta())


def _judges_nothing(*_: object) -> bool:
    return False


def _summary(sent: Sequence[str], problems: Sequence[str], look: MonitoredState | Exception) -> str:
    words = [f"sent {'; '.join(sent)}"] if sent else []
    words += [f"not sent: {each}" for each in problems]
    words += [str(look)] if isinstance(look, Exception) else []
    return "; ".join(words) or "nothing new"
