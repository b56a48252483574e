package cdc_assets.decode.figures;

import cdc_assets.decode.Named;
import cdc_assets.decode.figures.Counted.Kind;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A function for Spark: what {@link Counted} has counted, in JSON; NULL if that are not so many rows.
 * Only the driver can tell it, which computes observed metrics of what its tasks have observed.
 */
public final class Told extends Named<UTF8String> {
    private static final long serialVersionUID = 1;

    private final Kind kind;
    private final transient Sent sent;

    public Told(Kind kind, String id) {
        super("told." + id);
        this.kind = kind;
        sent = Sent.under(id);
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.LongType};
    }

    @Override
    public DataType resultType() {
        return DataTypes.StringType;
    }

    /** What Spark calls. */
    public UTF8String invoke(long rows) {
        Counts counts = sent == null ? null : sent.all(kind, rows);
        return counts == null ? null : UTF8String.fromString(counts.told().toString());
    }
}
