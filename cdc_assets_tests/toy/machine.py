"""The toy and the model of the merge side by side, step by step, compared after each batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from cdc_assets_tests.model import keyless
from cdc_assets_tests.model.keyless import KeylessMerger, MissingRow
from cdc_assets_tests.model.reference import Image, Merger, Rules, Table, fold
from cdc_assets_tests.toy import actions, cuts
from cdc_assets_tests.toy.actions import RANGES, SHARES, Action, Snapshot, Toy
from cdc_assets_tests.toy.connector import Record, Settings, changes_of
from cdc_assets_tests.toy.source import KEYLESS, SINGLE, Schema

DO = actions.statements(SINGLE)
BEFALL = actions.happenings(SINGLE)


class _Machine(RuleBasedStateMachine):
    """What happens to source and connector."""

    toy: Toy

    def begin(self, schema: Schema, settings: Settings, before: list[Action]) -> None:
        self.toy = Toy(schema, settings)
        self.vector: Mapping[int, int] = {}
        for action in (*before, Snapshot()):
            self.toy.do(action)

    @property
    def records(self) -> list[Record]:
        return self.toy.log.records

    @rule(action=DO[actions.Insert])
    def insert(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=DO[actions.Update])
    def update(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=DO[actions.Delete])
    def delete(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=DO[actions.Truncate])
    def truncate(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=DO[actions.Commit])
    def commit(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=DO[actions.Rollback])
    def roll_back(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=BEFALL[actions.Snapshot])
    def snapshot(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=BEFALL[actions.Restart])
    def restart(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=BEFALL[actions.RaisePartitions])
    def raise_partitions(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=BEFALL[actions.Skip])
    def skip_an_offset(self, action: Action) -> None:
        self.toy.do(action)


class KeyedMachine(_Machine):
    """Tables with a key: each publish is the fold, replays change nothing, nothing goes back."""

    soft: ClassVar[bool] = False
    rules_of_merge: ClassVar[Rules] = Rules()

    @initialize(
        schema=actions.KEYED_SCHEMAS,
        settings=actions.settings_of(SINGLE),
        before=st.lists(actions.statement(SINGLE), max_size=10),
    )
    def start_with_rows_and_open_transactions(
        self, schema: Schema, settings: Settings, before: list[Action]
    ) -> None:
        self.begin(schema, settings, before)
        self.merger = Merger(schema.shape, self.soft, self.rules_of_merge)

    @rule(action=DO[actions.ChangeKey])
    def change_key(self, action: Action) -> None:
        self.toy.do(action)

    @rule(action=BEFALL[actions.Incremental])
    def incremental_snapshot(self, action: Action) -> None:
        self.toy.do(action)

    @rule(shares=SHARES)
    def merge(self, shares: list[int]) -> None:
        before, start = self.merger, self.vector
        self.vector = cuts.advanced(self.toy.log, start, shares)
        batch = changes_of(cuts.between(self.records, start, self.vector))
        self.merger = before.apply(batch)
        self._compare_with_the_fold()
        self._nothing_went_back(before)

    @rule(ranges=RANGES)
    def replay(self, ranges: list[cuts.Share]) -> None:
        batch = changes_of(cuts.again(self.records, cuts.earlier(self.vector, ranges)))
        assert self.merger.replay(batch) == self.merger, "a replay changed something"

    def teardown(self) -> None:
        if hasattr(self, "toy"):
            self.merge([100] * 4)
            self.replay([(0, 100)] * 4)

    def _compare_with_the_fold(self) -> None:
        known = changes_of(cuts.between(self.records, {}, self.vector))
        table = self.merger.table()
        assert table == fold(known, self.merger.shape, soft=self.soft)
        assert self.merger.incomplete == ()
        if self.vector == self.toy.log.ends:
            assert _alive(table) == self.toy.source.rows, "all is read, but it is not the source"

    def _nothing_went_back(self, before: Merger) -> None:
        for key in before.rows.keys() | before.deletes.keys():
            assert self.merger.position_of(key) >= before.position_of(key)
        assert all(self.merger.offsets[p] >= at for p, at in before.offsets.items())


class SoftMachine(KeyedMachine):
    """The same where deleted rows stay, marked."""

    soft = True


class KeylessMachine(_Machine):
    """Tables without a key: each publish is the fold; a batch that is too short is tried longer."""

    remember_events: ClassVar[bool] = True

    @initialize(
        settings=actions.settings_of(KEYLESS),
        before=st.lists(actions.statement(KEYLESS), max_size=10),
    )
    def start_with_rows_and_open_transactions(
        self, settings: Settings, before: list[Action]
    ) -> None:
        self.begin(KEYLESS, settings, before)
        self.merger = KeylessMerger(remember_events=self.remember_events)

    @rule(shares=SHARES)
    def merge(self, shares: list[int]) -> None:
        to = cuts.advanced(self.toy.log, self.vector, shares)
        try:
            merged = self._merged(to)
        except MissingRow:
            to = self.toy.log.ends
            merged = self._merged(to)
        self.merger, self.vector = merged, dict(to)
        known = changes_of(cuts.between(self.records, {}, self.vector))
        assert self.merger.rows == keyless.fold(known)
        if self.vector == self.toy.log.ends:
            rows = self.toy.source.rows.values()
            assert self.merger.rows == Counter(tuple(sorted(row.items())) for row in rows)

    def teardown(self) -> None:
        if hasattr(self, "toy"):
            self.merge([100] * 4)

    def _merged(self, to: Mapping[int, int]) -> KeylessMerger:
        return self.merger.apply(changes_of(cuts.between(self.records, self.vector, to)))


def _alive(table: Table) -> dict[tuple[object, ...], object]:
    def values(image: Image) -> object:
        return dict(image.values)

    return {key: values(image) for key, image in table.items() if not image.deleted}
