package cdc_assets.decode.figures;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;

/** What is counted of the rows of a task. */
interface Counts extends Serializable {
    /** Counts a row: a struct of the parts that are counted. */
    void add(InternalRow row);

    /** Adds what another task has counted of other rows. */
    void add(Counts other);

    /** Returns the number of rows. */
    long rows();

    /** Returns what the package is told. */
    JsonNode told();
}
