package cdc_assets.decode.lake;

import java.util.Optional;
import java.util.Set;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
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
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A table as its changes: the places of rows that are removed, and rows that are added.
 *
 * <p>The columns are those of a place (``_spec_id``, ``_partition``, ``_file``, ``_pos``), as the
 * table's rows tell it, of a row, and in format version 3 the row's identity. Where ``_file`` is NULL
 * the rest is a row; one with an identity is not new, but copied.
 *
 * <p>A table whose files are copied is not told places. It is told the files that go: their rows, read
 * here, are written again without those that are removed.
 *
 * <p>Iceberg writes all of it as for a ``MERGE``: nothing but the choice between them is ours.
 */
final class Target implements SupportsWrite, SupportsRead {
    private final SparkTable table;
    private final Optional<String[]> copied;
    private final Shape shape;

    /** ``copied`` has the files that are written again; empty where rows are marked as removed. */
    Target(SparkTable table, Optional<String[]> copied) {
        this.table = table;
        this.copied = copied;
        StructType row = CatalogV2Util.v2ColumnsToStructType(table.columns());
        this.shape = new Shape(metadata(table, "_partition"), row, hasIdentities());
    }

    /** The structs that Iceberg takes: of what a row's file belongs to, of its place, of a row. */
    record Shape(StructType owner, StructType place, StructType row, StructType identity)
            implements java.io.Serializable {
        static final int FILE = 2;

        Shape(DataType partition, StructType row, boolean hasIdentities) {
            this(
                    new StructType()
                            .add("_spec_id", DataTypes.IntegerType, false)
                            .add("_partition", partition),
                    new StructType()
                            .add("_file", DataTypes.StringType, false)
                            .add("_pos", DataTypes.LongType, false),
                    row,
                    !hasIdentities
                            ? new StructType()
                            : new StructType()
                                    .add("_row_id", DataTypes.LongType)
                                    .add("_last_updated_sequence_number", DataTypes.LongType));
        }

        /** All of their columns; each is NULL where it is of the other kind. */
        StructType columns() {
            StructType all = new StructType();
            for (StructType part : new StructType[] {owner, place, row, identity}) {
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
        return Set.of(TableCapability.BATCH_WRITE, TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        ScanBuilder all = operation(options).newScanBuilder(options);
        return new SupportsPushDownRequiredColumns() {
            @Override
            public void pruneColumns(StructType columns) {
                ((SupportsPushDownRequiredColumns) all).pruneColumns(columns);
            }

            @Override
            public Scan build() {
                return ofCopied(all.build());
            }
        };
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        RowLevelOperation operation = operation(info.options());
        // Iceberg takes from a scan which files go, or what was deleted of the files before.
        Scan scan = operation.newScanBuilder(CaseInsensitiveStringMap.empty()).build();
        if (copied.isPresent()) {
            ofCopied(scan);
        }
        Write write = operation.newWriteBuilder(described(info)).build();
        return new WriteBuilder() {
            @Override
            public Write build() {
                return new Changes(write, shape);
            }
        };
    }

    /** Iceberg's own ``MERGE``; refused if the table's mode is no more the one that was planned. */
    private RowLevelOperation operation(CaseInsensitiveStringMap options) {
        var operation = table.newRowLevelOperationBuilder(merge(options)).build();
        ValidationException.check(
                copied.isPresent() != operation instanceof SupportsDelta,
                "write.merge.mode of the table is %s, which was not planned",
                copied.isPresent() ? "merge-on-read" : "copy-on-write");
        return operation;
    }

    /** Leaves the copied files of a scan, as Spark does once it has found what a statement changes. */
    private Scan ofCopied(Scan scan) {
        String[] files = copied.orElseThrow();
        var of = new org.apache.spark.sql.connector.expressions.Expression[files.length + 1];
        of[0] = Expressions.column("_file");
        for (int i = 0; i < files.length; i++) {
            of[i + 1] = LiteralValue.apply(UTF8String.fromString(files[i]), DataTypes.StringType);
        }
        ((SupportsRuntimeV2Filtering) scan).filter(new Predicate[] {new Predicate("IN", of)});
        return scan;
    }

    private boolean hasIdentities() {
        return copied.isPresent() && org.apache.iceberg.TableUtil.supportsRowLineage(table.table());
    }

    private static DataType metadata(SparkTable table, String name) {
        for (MetadataColumn each : table.metadataColumns()) {
            if (each.name().equals(name)) {
                return each.dataType();
            }
        }
        throw new IllegalStateException("Iceberg's table does not tell " + name);
    }

    private static RowLevelOperationInfo merge(CaseInsensitiveStringMap options) {
        return new RowLevelOperationInfo() {
            @Override
            public CaseInsensitiveStringMap options() {
                return options;
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
                return Optional.of(copied.isPresent() ? shape.identity() : shape.owner());
            }
        };
    }
}
