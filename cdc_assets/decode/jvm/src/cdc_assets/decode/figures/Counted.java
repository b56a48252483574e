package cdc_assets.decode.figures;

import cdc_assets.decode.Json;
import cdc_assets.decode.Named;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.function.Function;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;

/**
 * A function for Spark that counts the rows which it is asked about, and says true of each. Each task
 * has a copy of it, which sends what it has counted when the task ends; {@link Told} tells it.
 *
 * <p>An aggregate would be simpler, but Spark 4.1 cannot observe one of a catalog of functions: its
 * {@code V2Aggregator} holds a projection that cannot be sent from a task.
 */
public final class Counted extends Named<Boolean> {
    private static final long serialVersionUID = 1;

    private final String wanted;
    private final Kind kind;
    private final DataType parts;
    private final transient Sent sent;
    private final CollectionAccumulator<byte[]> bytes;
    private transient Counts counts;

    /** What may be counted. */
    public enum Kind {
        /** Records of a batch, see {@link Records}. */
        BATCH(Records::new),
        /** Folded changes, see {@link Folded}. */
        FOLD(told -> new Folded());

        private final Function<JsonNode, Counts> made;

        Kind(Function<JsonNode, Counts> made) {
            this.made = made;
        }

        Counts of(String wanted) {
            return made.apply(Json.read(wanted));
        }

        Counts none() {
            return of("{}");
        }
    }

    /**
     * @param wanted in JSON, with the {@code id} under which it is told
     * @param arguments a struct of the parts
     */
    public Counted(Kind kind, String wanted, StructType arguments) {
        super("counted." + wanted);
        this.wanted = wanted;
        this.kind = kind;
        parts = arguments.fields()[0].dataType();
        sent = Sent.under(Json.read(wanted).path("id").asText());
        bytes = sent.bytes;
    }

    @Override
    public DataType[] inputTypes() {
        return new DataType[] {parts};
    }

    @Override
    public DataType resultType() {
        return DataTypes.BooleanType;
    }

    @Override
    public boolean isResultNullable() {
        return false;
    }

    /** What Spark's generated code calls. */
    public boolean invoke(InternalRow row) {
        if (counts == null) {
            Counts made = kind.of(wanted);
            TaskCompletionListener send = task -> bytes.add(new Task(task.partitionId(), made).written());
            TaskContext.get().addTaskCompletionListener(send);
            counts = made;
        }
        counts.add(row);
        return true;
    }
}
