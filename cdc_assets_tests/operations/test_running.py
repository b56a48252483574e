"""One model gives a command's options and a job's configuration, and one runner the rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import dagster as dg
import pytest
from click.testing import CliRunner
from pydantic import Field

from cdc_assets.config import ReplicationConfig
from cdc_assets.errors import CdcError
from cdc_assets.operate.services import Services
from cdc_assets.operations.command import command_of
from cdc_assets.operations.operation import Job, Operation, Progress, Report
from cdc_assets.operations.options import AnyTables, Cli, OneTable, Options, Planned, parameters
from cdc_assets.operations.session import Host, TableSession
from cdc_assets.orchestration.manual_jobs import config_of
from cdc_assets.orchestration.operation_jobs import operation_job
from cdc_assets.registry import RegistryFile
from cdc_assets_tests.world import registry_of, write_config


class CountOptions(AnyTables, Planned):
    """Options of each form."""

    how: Literal["fast", "slow"] = Field(default="fast", description="How fast.")
    at_most: int = Field(default=3, ge=1, description="How many.")
    check: bool = Field(default=True, description="Whether to check.")
    do: Annotated[Literal["count", "stop", "start"], Cli(is_flags=True)] = Field(
        default="count", description="What to do."
    )
    whole: Annotated[bool, Cli(always=True)] = Field(default=False, description="All of it.")


@dataclass(frozen=True, slots=True)
class Counted:
    """A plan."""

    said: dict[str, Any]

    def lines(self) -> Sequence[str]:
        return ["would count"]

    def to_dict(self) -> dict[str, Any]:
        return self.said


class Count(Operation[CountOptions, Counted]):
    """Count what there is."""

    name = "count"
    options = CountOptions
    job = Job("count_tables", "count_all", "count", "Counts.")

    def prepare(self, host: Host, options: CountOptions) -> Iterator[Progress]:
        yield Progress("counting begins")

    def plan(self, session: TableSession, options: CountOptions) -> Counted:
        return Counted({"table": session.entry.table.name, **options.model_dump(mode="json")})

    def steps(
        self, session: TableSession, options: CountOptions, plan: Counted
    ) -> Iterator[Progress | Report]:
        name = session.entry.table.name
        yield Progress(f"{name}: counting")
        session.lease.ask()
        if name == "broken":
            what = "it cannot be counted"
            raise CdcError(what)
        session.say(f"{name}: halfway")
        failure = "is empty" if name == "empty" else ""
        yield Report(plan.to_dict(), (f"{name}: counted",), failure, log_lines=("in private",))


@dataclass
class World:
    """Tables, and a console that records what it is told."""

    config: ReplicationConfig
    forgotten: list[str] = field(default_factory=list[str])
    observed: list[Report] = field(default_factory=list[Report])

    @property
    def host(self) -> Host:
        return Host("a-run", lambda: None, lambda: self.forgotten.append(""))  # pyright: ignore[reportArgumentType]

    def observe(self, report: Report) -> None:
        self.observed.append(report)

    def materialize(self, options: Any, tables: Any, say: Any) -> Report:
        raise NotImplementedError

    @contextmanager
    def opened(self, _: Services) -> Iterator[World]:
        yield self

    def run(self, *arguments: str) -> Any:
        command = command_of(Count(), lambda: self.config, self.opened)
        return CliRunner().invoke(command, list(arguments))


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    config = write_config(tmp_path)

    def made(*tables: str) -> World:
        RegistryFile(config.registry).add(list(registry_of(config, *tables)))
        return World(config)

    return made


@pytest.mark.unit
def test_a_field_gives_an_option_with_its_description(world: Callable[..., World]) -> None:
    shown = " ".join(world("orders").run("--help").output.split())
    for part in ("--table TEXT This table: [source.][schema.]table", "--all All tables.",
                 "--how [fast|slow] How fast. [default: fast]", "--check / --no-check",
                 "--at-most INTEGER RANGE How many. [default: 3; x>=1]", "--stop What to do.",
                 "--dry-run Print the plan, and change nothing.",
                 "--json One JSON document."):  # fmt: skip
        assert part in shown
    assert "--whole" not in shown


@pytest.mark.unit
def test_a_command_gives_what_its_options_say(world: Callable[..., World]) -> None:
    here = world("orders")
    done = here.run("--table", "orders", "--how", "slow", "--no-check", "--start", "--json")
    (said,) = json.loads(done.stdout)["tables"]
    assert (said["how"], said["check"], said["do"]) == ("slow", False, "start")
    assert (said["at_most"], said["whole"]) == (3, True)
    (said,) = json.loads(here.run("--all", "--json").stdout)["tables"]
    assert (said["how"], said["check"], said["do"]) == ("fast", True, "count")
    assert done.stderr == "counting begins\norders: counting\norders: halfway\n"


@pytest.mark.unit
def test_a_table_that_fails_is_named_and_the_others_are_done(world: Callable[..., World]) -> None:
    here = world("broken", "orders")
    done = here.run("--all")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "counting begins", "broken: counting", "orders: counting", "orders: halfway",
        "orders: counted",
    ]  # fmt: skip
    assert "failed: shop.public.broken: it cannot be counted" in done.stderr
    assert here.forgotten == [""], "its session may be what failed"
    assert len(here.observed) == 1
    assert Services(here.config).desired.load() == {}, "no other writer waits any longer"


@pytest.mark.unit
def test_a_table_that_is_not_as_was_asked_for_exits_with_1(world: Callable[..., World]) -> None:
    assert world("empty").run("--all").exit_code == 1


@pytest.mark.unit
def test_a_dry_run_ends_with_the_plan(world: Callable[..., World]) -> None:
    here = world("orders")
    done = here.run("--all", "--dry-run")
    assert (done.exit_code, done.stdout) == (0, "would count\n")
    assert json.loads(here.run("--all", "--dry-run", "--json").stdout)["dry_run"]


@pytest.mark.unit
def test_without_any_table_it_says_so(world: Callable[..., World]) -> None:
    assert world().run("--all").stdout == "counting begins\nno table is chosen\n"


@pytest.mark.slow
def test_a_job_has_the_same_options(
    world: Callable[..., World], capfd: pytest.CaptureFixture[str]
) -> None:
    here = world("broken", "orders")
    fields = config_of(CountOptions).model_fields
    assert {name: each.description for name, each in fields.items()} == {
        name: each.description for name, each in CountOptions.model_fields.items()
    }
    job = operation_job(Count())(here.config, registry_of(here.config))
    with dg.DagsterInstance.ephemeral() as instance:

        def run(**config: object) -> dg.ExecuteInProcessResult:
            given = {"ops": {"count_all": {"config": config}}}
            return job.execute_in_process(given, instance=instance, raise_on_error=False)

        assert run(tables=["orders"], how="slow").success
        failed = run(every=True)
        wrong = run(every=True, at_most=0)
    assert not failed.success
    (event,) = failed.get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None
    described = event.step_failure_data.user_failure_data.description
    assert described is not None
    assert described.startswith("shop.public.broken: it cannot be counted; see https://")
    assert not wrong.success
    logged = capfd.readouterr().err
    assert "in private" in logged
    assert "orders: counted" not in logged, "its lines may name keys"


@pytest.mark.unit
def test_a_table_is_an_argument() -> None:
    class One(OneTable):
        """Of one table."""

    (table,) = parameters(One)
    assert isinstance(table, click.Argument)
    assert One(table="orders").names_one
    assert not Options().is_dry_run
