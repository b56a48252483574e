package cdc_assets.decode.lake;

import java.util.Optional;
import java.util.Set;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperation.Command;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A table as its changes: the places of rows that are removed, and rows that are added.
 *
 * <p>The columns are those of a place (``_spec_id``, ``_partition``, ``_file``, ``_pos``), as the
 * table's rows tell it, and those of a row. Where ``_file`` is NULL the rest is a new row.
 *
 * <p>Iceberg writes both as for a ``MERGE``: nothing but the choice between them is ours.
 */
final class Target implements SupportsWrite {
    private final SparkTable table;
    private final Shape shape;

    Target(SparkTable table) {
        this.table = table;
        this.shape = new Shape(partition(table), CatalogV2Util.v2ColumnsToStructType(table.columns()));
    }

    /** The structs that Iceberg takes: of what a row's file belongs to, of its place, of a row. */
    record Shape(StructType owner, StructType place, StructType row) implements java.io.Serializable {
        static final int FILE = 2;

        Shape(DataType partition, StructType row) {
            this(
                    new StructType()
                            .add("_spec_id", DataTypes.IntegerType, false)
                            .add("_partition", partition),
                    new StructType()
                            .add("_file", DataTypes.StringType, false)
                            .add("_pos", DataTypes.LongType, false),
                    row);
        }

        /** All of their columns; each is NULL where it is of the other kind. */
        StructType columns() {
            StructType all = new StructType();
            for (StructType part : new StructType[] {owner, place, row}) {
                for (StructField each : part.fields()) {
                    all = all.add(each.name(), each.dataType());
                }
            }
            return all;
        }
    }

    @Override
    public String name() {
        return table.name();
    }

    @Override
    public Column[] columns() {
        StructField[] all = shape.columns().fields();
        Column[] columns = new Column[all.length];
        for (int i = 0; i < all.length; i++) {
            columns[i] = Column.create(all[i].name(), all[i].dataType());
        }
        return columns;
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.BATCH_WRITE);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        RowLevelOperation operation = table.newRowLevelOperationBuilder(merge(info)).build();
        if (!(operation instanceof SupportsDelta merge)) {
            throw new IllegalStateException("write.merge.mode of the table is not merge-on-read");
        }
        // Iceberg takes from a scan what was deleted of the files before.
        merge.newScanBuilder(CaseInsensitiveStringMap.empty()).build();
        DeltaWrite write = merge.newWriteBuilder(described(info)).build();
        return new WriteBuilder() {
            @Override
            public Write build() {
                return new Delta(write, shape);
            }
        };
    }

    private static DataType partition(SparkTable table) {
        for (MetadataColumn each : table.metadataColumns()) {
            if (each.name().equals("_partition")) {
                return each.dataType();
            }
        }
        throw new IllegalStateException("Iceberg's table tells no partitions");
    }

    private static RowLevelOperationInfo merge(LogicalWriteInfo info) {
        return new RowLevelOperationInfo() {
            @Override
            public CaseInsensitiveStringMap options() {
                return info.options();
            }

            @Override
            public Command command() {
                return Command.MERGE;
            }
        };
    }

    private LogicalWriteInfo described(LogicalWriteInfo info) {
        return new LogicalWriteInfo() {
            @Override
            public CaseInsensitiveStringMap options() {
                return info.options();
            }

            @Override
            public String queryId() {
                return info.queryId();
            }

            @Override
            public StructType schema() {
                return shape.row();
            }

            @Override
            public Optional<StructType> rowIdSchema() {
                return Optional.of(shape.place());
            }

            @Override
            public Optional<StructType> metadataSchema() {
                return Optional.of(shape.owner());
            }
        };
    }
}
