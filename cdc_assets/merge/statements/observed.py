"""Counts rows by our own functions, in a pass that reads the rows for another purpose."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

from cdc_assets.decode import counted, counted_result

_COUNTED: Final = "counted"


class Observed:
    """Figures of the rows of one frame (``DataFrame.observe``). Attach once.

    Attributes:
        name: of the observation, which no other has.
    """

    def __init__(self, about: str) -> None:
        self.name = f"{about}-{uuid.uuid4()}"
        self._observation: Observation | None = None

    def attach(
        self, frame: DataFrame, what: str, wanted: Mapping[str, object], *parts: Expression
    ) -> DataFrame:
        """Returns the same rows, counted; see `cdc_assets.decode.counted`."""
        each = counted(what, {"id": self.name, **wanted}, *parts)
        figures = counted_result(what, self.name, F.count_if(_COUNTED)).alias(_COUNTED)
        counting = frame.withColumn(_COUNTED, each)
        return counting.observe(self._observed_as(frame), figures).drop(_COUNTED)

    def figures(self, read: DataFrame) -> Any:
        """Returns the figures; None if Spark has not reported them.

        Spark's Connect server takes a command's figures from a listener, for which it waits 100 ms:
        on a busy server the figures may be missing (``Observation.getRowOrEmpty`` in Spark 4.1).
        For a query the server also takes them from the executed plan, which always has them.

        Args:
            read: the frame whose execution has read all the rows.
        """
        if self._observation is not None:
            text = self._observation.get.get(_COUNTED)
        else:
            info = read.executionInfo  # a query's figures come twice, or once empty
            flows = info.flows if info else ()
            text = next((got[_COUNTED] for name, got in flows if name == self.name and got), None)
        return None if text is None else json.loads(text)

    def _observed_as(self, frame: DataFrame) -> str | Observation:
        """Returns a name, as for an `Observation` the client has the server analyze all of a plan.

        A session within this process gives figures to an `Observation` only.
        """
        if isinstance(frame, ConnectFrame):
            return self.name
        observation = self._observation = Observation(self.name)
        return observation
