"""Has Spark compute figures of rows in the pass that reads them for something else."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame


class Observed:
    """Figures of the rows of one frame (``DataFrame.observe``). Attach once.

    Attributes:
        name: of the observation, which no other has.
    """

    def __init__(self, about: str) -> None:
        self.name = f"{about}-{uuid.uuid4()}"
        self._observation: Observation | None = None

    def attach(self, frame: DataFrame, figures: Sequence[Expression]) -> DataFrame:
        """Returns the same rows, observed.

        Args:
            frame: the rows.
            figures: aggregates; Spark interprets them, where it compiles a projection.
        """
        return frame.observe(self._observed_as(frame), *figures)

    def is_told(self, read: DataFrame) -> bool:
        """Returns whether Spark has told the figures of a frame that has read the rows.

        Its Connect server takes a command's figures from a listener, for which it waits 100 ms: on
        a busy server they may be missing (``Observation.getRowOrEmpty`` in Spark 4.1). For a query
        it also takes them from the plan that was executed, where they always are.
        """
        return self._observation is not None or bool(self.told(read))

    def told(self, read: DataFrame) -> Mapping[str, Any]:
        """Returns the figures by name; nothing if Spark has not told them.

        Args:
            read: the frame whose execution has read all the rows, once.
        """
        if self._observation is not None:
            return {
                name: bytes(value) if isinstance(value, bytearray) else value
                for name, value in self._observation.get.items()
            }
        info = read.executionInfo  # a query's figures come twice, or once empty
        flows = info.flows if info else ()
        return next((got for name, got in flows if name == self.name and got), {})

    def _observed_as(self, frame: DataFrame) -> str | Observation:
        """Returns a name, as for an `Observation` the client has the server analyze all of a plan.

        A session within this process gives figures to an `Observation` only.
        """
        if isinstance(frame, ConnectFrame):
            return self.name
        observation = self._observation = Observation(self.name)
        return observation
