"""Rows that are put right beside a rebuild would go with the table that it replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.changes.offsets import OffsetVector
from cdc_assets.changes.position import Scheme
from cdc_assets.changes.publish_kind import PublishKind
from cdc_assets.desired import Directive, DirectiveNote
from cdc_assets.errors import TerminalError, TransientError
from cdc_assets.lake import Lake
from cdc_assets.lake.carried import Carried
from cdc_assets.merge.verifying import putting
from cdc_assets.merge.verifying.putting import Putting, require_compared
from cdc_assets.merge.verifying.repair import Repair, RowRepair, generation_of
from cdc_assets.merge.verifying.report import ComparisonReport
from cdc_assets.merge.verifying.verification import Verification
from cdc_assets.operate.services import Services
from cdc_assets.operations import verify
from cdc_assets.operations.lease import Lease
from cdc_assets.operations.maintain import no_session
from cdc_assets.operations.resnapshot import spark_resnapshot, wave
from cdc_assets.operations.resnapshot.comparing import ComparedWave, KeyState
from cdc_assets.operations.resnapshot.notes import ResnapshotProgress
from cdc_assets.operations.resnapshot.spark_resnapshot import SparkResnapshot
from cdc_assets.operations.resnapshot.wave import WaveResult, Waves, WaveSizes
from cdc_assets.operations.running import Runner
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.operations.verify import VERIFY, VerifyOptions
from cdc_assets.registry import RegistryFile
from cdc_assets.schema.comparing import Compared, Comparison, Form, Uncompared
from cdc_assets.schema.types import Column, Primitive, TableSchema, Wire
from cdc_assets_tests.operated import session_of
from cdc_assets_tests.world import NOW, entry_of, registry_of, write_config

pytestmark = pytest.mark.unit


def column(name: str) -> Column:
    return Column(name, Primitive.STRING, Wire.STRING)


ID = Compared(column("id"), Form.TEXT)
OF = Comparison((ID,), (ID,), (Uncompared("note", "why"),), is_keyed=True)


def plan_of(*names: str, key: tuple[str, ...] = ("id",), generation: int = 1) -> Any:
    schema = TableSchema(tuple(map(column, names)), key)
    published = SimpleNamespace(carried=Carried(generation=generation))
    return SimpleNamespace(
        schema=schema, published=published, where="t", steps=(), soft=True, entry=None
    )


@pytest.fixture
def way(tmp_path: Path) -> Lease:
    config = write_config(tmp_path)
    return Lease(Services(config), entry_of("orders", config).table, "a-run")


def begin_rebuild(way: Lease) -> None:
    way.services.desired.put(way.table, Directive.REBUILD, DirectiveNote(NOW, "cdc-assets rebuild"))


class Branch:
    """The branch of a publish, before whose end a rebuild begins."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile
        self.done = list[str]()

    def __call__(self, _: object, require: Callable[[], None]) -> Branch:
        self.require = require
        return self

    @contextmanager
    def dropped_on_failure(self) -> Iterator[None]:
        try:
            yield
        except Exception:
            self.done.append("dropped")
            raise

    def places(self, *_: object) -> None:
        self.done.append("found")

    def write(self, *_: object) -> None:
        self.meanwhile()
        self.require()
        self.done.append("written")

    def publish(self) -> None:
        self.done.append("published")


@pytest.mark.parametrize("begins", [True, False])
def test_what_was_written_is_not_published_once_a_rebuild_has_begun(
    way: Lease, monkeypatch: pytest.MonkeyPatch, begins: bool
) -> None:
    branch = Branch((lambda: begin_rebuild(way)) if begins else lambda: None)
    frame: Any = SimpleNamespace()
    rows = SimpleNamespace(
        lake_rows=lambda *_: frame,
        gone_rows=lambda _: frame,
        new_rows=lambda *_: frame,
        changes=lambda _: frame,
    )
    monkeypatch.setattr(putting, "_Rows", lambda *_: rows)
    monkeypatch.setattr(putting, "Publisher", lambda *_: None)
    monkeypatch.setattr(putting, "Branch", branch)
    published = SimpleNamespace(to_properties=dict)
    monkeypatch.setattr(Putting, "_published", lambda *_: published)
    planner = SimpleNamespace(require_same_topic=lambda _: None)
    lakes = SimpleNamespace(spark=lambda: None, catalog="lake", lake=None, planner=planner)
    entry = SimpleNamespace(shard=None)
    of = cast("Any", (lakes, entry, OF, "a-run", PublishKind.REPAIR, lambda: NOW, way))
    put = cast("Any", Putting(*of)).put
    if begins:
        with pytest.raises(TerminalError, match=r"being rebuilt, .*--abandon.*run the same"):
            put(plan_of("id", "note"), None, None, 1, "")
    else:
        put(plan_of("id", "note"), None, None, 1, "")
    assert branch.done == ["found", *(["dropped"] if begins else ["written", "published"])]


@pytest.mark.parametrize(
    "now",
    [plan_of("id", "note", "later"), plan_of("id", "note", key=("note",))],
    ids=["one", "key"],
)
def test_no_row_is_put_in_without_columns_that_were_not_compared(now: Any) -> None:
    require_compared(plan_of("id", "note"), OF)
    with pytest.raises(TransientError, match="have changed since it was compared"):
        require_compared(now, OF)


def test_nothing_is_put_right_in_another_table_than_was_compared() -> None:
    now = plan_of("id", generation=2)
    planner = SimpleNamespace(replay=lambda *_: SimpleNamespace(plan=now))
    cleared = list[str]()
    way = SimpleNamespace(clear=lambda: cleared.append("cleared"))
    all_read = Comparison((ID,), (ID,), (), is_keyed=True)
    lakes = SimpleNamespace(planner=planner, spark=None)
    entry = SimpleNamespace(table="t", target="t")
    of: Any = SimpleNamespace(lakes=lakes, entry=entry, comparison=all_read, run_id="r", way=way)
    wanted = RowRepair(cast("Any", SimpleNamespace(kind=None, source_values=None)), "AA")
    repair = Repair(of, generation_of(plan_of("id", generation=1)))
    with pytest.raises(TransientError, match="a rebuild was swapped in"):
        repair.apply([wanted])
    assert cleared == ["cleared"]


def test_waves_do_not_go_on_in_another_table_than_they_have_begun_with() -> None:
    planner = SimpleNamespace(replay=lambda *_: SimpleNamespace(plan=plan_of("id", generation=2)))
    entry = SimpleNamespace(table="t", target="t")
    lakes = SimpleNamespace(planner=planner)
    of = SimpleNamespace(lakes=lakes, entry=entry, run_id="r")
    waves: Any = Waves(*cast("Any", (None, of, None, None, None, None, 1)))
    with pytest.raises(TransientError, match=r"swapped in .*begins again"):
        waves.plan()


@pytest.mark.parametrize(
    ("attempt", "generation", "goes_on"),
    [("mine", 1, True), ("", 1, False), ("before", 1, False), ("mine", 2, False)],
    ids=["as it was", "of an older build", "made again, or rewound", "rebuilt"],
)
def test_waves_are_continued_only_in_the_table_that_they_have_read(
    way: Lease, monkeypatch: pytest.MonkeyPatch, attempt: str, generation: int, goes_on: bool
) -> None:
    monkeypatch.setattr(Lake, "has_attempt", lambda *of: of[-1] == "mine")
    config = way.services.config
    session = session_of(config, entry_of("orders", config), no_session)
    begun = ResnapshotProgress(NOW, ("id",), 1, ("7",), attempt, waves=3)
    waves = SimpleNamespace(plan=lambda: plan_of("id", generation=generation))
    continued = cast("Any", SparkResnapshot(session)).continued
    assert continued(begun, waves) == (begun if goes_on else None)


@pytest.mark.parametrize("taken_back", [None, "a1", "a2", "a3"])
def test_a_reading_ends_once_rows_of_its_waves_are_taken_back(
    way: Lease, monkeypatch: pytest.MonkeyPatch, taken_back: str | None
) -> None:
    """By a rewind, or a reset: else it said that all are equal, and ended the doubt about them."""
    config = way.services.config
    entry, looked = entry_of("orders", config), list[str]()

    def is_taken_back(_: Lake, __: object, attempt: str) -> bool:
        looked.append(attempt)
        return attempt == taken_back

    monkeypatch.setattr(Lake, "is_taken_back", is_taken_back)
    equal = ComparedWave({KeyState.EQUAL: 1}, 1, cast("Any", None), ())
    ends = iter((("1",), ("2",), None))
    numbers = iter("123")
    waves = SimpleNamespace(
        plan=lambda: plan_of("id"),
        wave=lambda _: WaveResult(next(ends), equal, 0, f"a{next(numbers)}"),
        source=SimpleNamespace(comparison=OF),
    )
    monkeypatch.setattr(SparkResnapshot, "_opened", lambda _: nullcontext(waves))
    begun = ResnapshotProgress(NOW, ("id",), 1)
    monkeypatch.setattr(SparkResnapshot, "_begin", lambda *_: begun)
    proven = list[object]()
    proof = SimpleNamespace(record=lambda *of: proven.append(of))
    monkeypatch.setattr(spark_resnapshot, "Proof", SimpleNamespace(of_known=lambda *_: proof))
    reading = SparkResnapshot(session_of(config, entry, no_session))
    if taken_back is None:
        assert reading.read(None, lambda _: None).is_whole
        assert looked == ["a1", "a2", "a3"]
    else:
        with pytest.raises(TransientError, match=r"rewound or made again.*begins again"):
            reading.read(None, lambda _: None)
    assert bool(proven) == (taken_back is None)


@pytest.mark.parametrize(
    ("now", "is_comparable"),
    [({0: 7}, True), ({0: 9}, True), ({0: 6}, False), ({}, False)],
    ids=["at rest", "merged on", "rewound", "made again"],
)
def test_a_wave_is_read_once_more_if_the_table_was_rewound_meanwhile(
    now: dict[int, int], is_comparable: bool
) -> None:
    """Changes that are merged again then are not above its position, and would win all the same."""
    planner = SimpleNamespace(marks=lambda _: SimpleNamespace(begin=OffsetVector()))
    of = SimpleNamespace(lakes=SimpleNamespace(planner=planner), entry=None)
    waves = cast("Any", Waves(*cast("Any", (None, of, None, None, None, None, 0))))
    plans = [
        SimpleNamespace(published=SimpleNamespace(offsets=OffsetVector.of(at), carried=Carried()))
        for at in ({0: 7}, now)
    ]
    assert waves._is_comparable(*plans) is is_comparable  # noqa: SLF001 (a step of a wave)


def test_a_wave_that_puts_nothing_rests_on_the_publish_that_it_was_compared_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By that publish it is noticed if the table is made again before the next wave."""
    equal = ComparedWave({KeyState.EQUAL: 1}, 1, cast("Any", None), ())
    for name, answer in {"read": None, "require_sound": None, "compare": equal}.items():
        monkeypatch.setattr(wave, name, lambda *_, _answer=answer, **__: _answer)
    carried = Carried(applied={0: "AA"})
    published = SimpleNamespace(attempt="a1", offsets=OffsetVector(), carried=carried)
    layout = SimpleNamespace(scheme=Scheme.POSTGRES)
    now = SimpleNamespace(published=published, steps=(), layout=layout, partitions=1)
    planner = SimpleNamespace(
        replay=lambda *_: SimpleNamespace(plan=now),
        marks=lambda _: SimpleNamespace(begin=OffsetVector()),
    )
    waits = SimpleNamespace(until_visible=lambda *_: "", caught_up=lambda *_: "")
    of = SimpleNamespace(
        lakes=SimpleNamespace(planner=planner, spark=lambda: None), run_id="r",
        entry=SimpleNamespace(table="t", target="t"),
        rows=lambda _: SimpleNamespace(among=lambda _: None),
    )  # fmt: skip
    source = SimpleNamespace(place=lambda: "0/1", comparison=OF)
    reading = SimpleNamespace(wave=lambda *_: nullcontext(SimpleNamespace(end=None)), omitted=())
    waves = Waves(*cast("Any", (waits, of, source, reading, WaveSizes(1, 1, 1), None, 0)))
    assert waves.wave(None) == WaveResult(None, equal, 0, "a1")


def test_neither_begins_while_a_rebuild_is_under_way(
    way: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_rebuild(way)
    config = way.services.config
    entry = entry_of("orders", config)
    monkeypatch.setattr(Verification, "_plan", lambda *_, **__: plan_of("id"))
    session: Any = lambda: pytest.fail("a session was asked for")  # noqa: E731
    attempts = session_of(config, entry, session).attempts
    with pytest.raises(TerminalError, match="being rebuilt"):
        Verification(attempts, "r", way=way).of(entry, repair=True)
    with pytest.raises(TerminalError, match="being rebuilt"):
        SparkResnapshot(session_of(config, entry, session)).read(None, lambda _: None)


@pytest.mark.parametrize("named", [True, False])
def test_a_table_that_is_built_anew_is_only_compared_where_all_are_put_right(
    way: Lease, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    begin_rebuild(way)
    config, repaired = way.services.config, dict[str, bool]()
    RegistryFile(config.registry).add(registry_of(config, "orders", "users"))
    monkeypatch.setattr(verify, "rests", lambda *_: "")

    def verified(session: TableSession, *, repair: bool) -> ComparisonReport:
        repaired[session.entry.table.name] = repair
        return ComparisonReport(session.entry.table, ("id",), 0)

    monkeypatch.setattr(verify, "verified", verified)
    options = VerifyOptions(tables=["orders", "users"] if named else [], every=True, repair=True)
    host = Host("r", no_session)
    Runner(way.services, host, lambda _: None).run(VERIFY, options)
    assert repaired == {"orders": named, "users": True}, "a named one says why it is not"
