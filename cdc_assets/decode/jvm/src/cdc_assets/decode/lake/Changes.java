package cdc_assets.decode.lake;

import cdc_assets.decode.lake.Target.Shape;
import java.io.IOException;
import java.util.stream.IntStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;

/** Iceberg's write of a table's changes, with the rows of {@link Target} in the place of Spark's. */
record Changes(Write write, Shape shape) implements Write, RequiresDistributionAndOrdering {
    private RequiresDistributionAndOrdering required() {
        return (RequiresDistributionAndOrdering) write;
    }

    @Override
    public Distribution requiredDistribution() {
        return required().requiredDistribution();
    }

    @Override
    public boolean distributionStrictlyRequired() {
        return required().distributionStrictlyRequired();
    }

    @Override
    public SortOrder[] requiredOrdering() {
        return required().requiredOrdering();
    }

    @Override
    public long advisoryPartitionSizeInBytes() {
        return required().advisoryPartitionSizeInBytes();
    }

    @Override
    public BatchWrite toBatch() {
        return new Batch(write.toBatch(), shape);
    }

    /** The write of all tasks, and its commit. */
    private record Batch(BatchWrite all, Shape shape) implements BatchWrite {
        @Override
        public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
            return new Writers(all.createBatchWriterFactory(info), shape);
        }

        @Override
        public boolean useCommitCoordinator() {
            return all.useCommitCoordinator();
        }

        @Override
        public void onDataWriterCommit(WriterCommitMessage message) {
            all.onDataWriterCommit(message);
        }

        @Override
        public void commit(WriterCommitMessage[] messages) {
            all.commit(messages);
        }

        @Override
        public void abort(WriterCommitMessage[] messages) {
            all.abort(messages);
        }
    }

    private record Writers(DataWriterFactory all, Shape shape) implements DataWriterFactory {
        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task) {
            return new Writer(all.createWriter(partition, task), shape);
        }
    }

    /** The write of one task. */
    private static final class Writer implements DataWriter<InternalRow> {
        private final DataWriter<InternalRow> all;
        private final ProjectingInternalRow owner;
        private final ProjectingInternalRow place;
        private final ProjectingInternalRow row;
        private final ProjectingInternalRow identity;
        private final boolean hasIdentities;

        Writer(DataWriter<InternalRow> all, Shape shape) {
            this.all = all;
            owner = part(shape.owner(), 0);
            place = part(shape.place(), Shape.FILE);
            int first = Shape.FILE + shape.place().size();
            row = part(shape.row(), first);
            identity = part(shape.identity(), first + shape.row().size());
            hasIdentities = !shape.identity().isEmpty();
        }

        private static ProjectingInternalRow part(StructType columns, int first) {
            var ordinals = new scala.collection.immutable.VectorBuilder<Object>();
            IntStream.range(first, first + columns.size()).forEach(ordinals::addOne);
            return new ProjectingInternalRow(columns, ordinals.result());
        }

        @Override
        public void write(InternalRow change) throws IOException {
            if (!change.isNullAt(Shape.FILE)) {
                owner.project(change);
                place.project(change);
                ((DeltaWriter<InternalRow>) all).delete(owner, place);
                return;
            }
            row.project(change);
            if (hasIdentities) {
                identity.project(change);
                all.write(identity, row);
            } else {
                all.write(row);
            }
        }

        @Override
        public WriterCommitMessage commit() throws IOException {
            return all.commit();
        }

        @Override
        public void abort() throws IOException {
            all.abort();
        }

        @Override
        public void close() throws IOException {
            all.close();
        }

        @Override
        public CustomTaskMetric[] currentMetricsValues() {
            return all.currentMetricsValues();
        }
    }
}
