"""A wire format as a package of somebody else would bring it: ``op;id;text`` in each record."""

from cdc_assets.formats.format import Format
from cdc_assets.formats.sample import Sample
from cdc_assets.log.kinds import TopicKind

_OPS = {"+": "c", "-": "d"}


class Lines(Format):
    """``+;1;text`` sets a row, ``-;1;`` removes it; Kafka's order counts."""

    name = "lines"

    def kind(self, record):
        return TopicKind.CHANGES if _fields(record.value) else TopicKind.OTHER

    def look(self, records, table):
        rows = [fields for record in records if (fields := _fields(record.value))]
        images = tuple({"id": id_, "text": text} for _, id_, text in rows)
        keys = tuple({"id": id_} for _, id_, _ in rows)
        return Sample(len(records), len(rows), images, bool(rows), keys, (), dialect="plain")

    def holds_row(self, record, table):
        return bool(_fields(record.value))

    def document(self, spec):
        from pyspark.sql import functions as F

        return F.split(F.col("value").cast("string"), ";")

    def envelope(self, document, spec):
        from pyspark.sql import functions as F

        from cdc_assets.formats.envelope import (
            Envelope,
            image_of,
            no_image,
            no_names,
            no_text,
            nothing_left_out,
        )

        def field(number):
            return F.get(document, F.lit(number))

        def value(column):
            return field(spec.schema.names.index(column.name) + 1)

        nothing = F.lit(None).cast("bigint")
        return Envelope(
            op=F.when(field(0) == "+", "c").when(field(0) == "-", "d"),
            is_read=F.lit(False),
            before=image_of(field(0) == "-", spec.before_columns, value),
            after=image_of(field(0) == "+", spec.schema.columns, value),
            unchanged=no_names(),
            left_out=nothing_left_out(),
            record_key=no_image(),
            source=F.struct(
                nothing.alias("ts_ms"), nothing.alias("ts_us"), no_text().alias("snapshot")
            ),
            ordinal=nothing,
            reject=F.when(~field(0).isin(*_OPS), "not a line of ours"),
            other_table=no_text(),
            unknown=no_names(),
            absent=no_names(),
        )


def _fields(value):
    fields = (value or b"").decode(errors="replace").split(";")
    return fields if len(fields) == 3 and fields[0] in _OPS else None
