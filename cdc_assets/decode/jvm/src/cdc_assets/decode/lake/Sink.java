package cdc_assets.decode.lake;

import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A format to write in, by which one write removes rows of an Iceberg table and adds others, in one
 * commit. Spark's own statements do that in two, and each of them goes to whatever head it finds.
 *
 * <p>Options: ``catalog``, ``namespace`` and ``table`` name the table. With ``head`` the commit goes
 * to ``main``, if that is still at this snapshot (empty: at none); with ``branch`` it goes to that
 * branch. With ``copied``, a file on each line, a write replaces these files; a read returns their
 * rows, as the table has them. All others are Iceberg's.
 */
public final class Sink implements TableProvider {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType(); // the table has its own
    }

    @Override
    public Table getTable(StructType none, Transform[] parts, Map<String, String> options) {
        return new Target(at(options), Optional.ofNullable(options.get("copied")).map(Sink::lines));
    }

    private static String[] lines(String text) {
        return text.isEmpty() ? new String[0] : text.split("\n");
    }

    private static SparkTable at(Map<String, String> options) {
        String branch = options.get("branch");
        if (branch != null) {
            String[] table = {options.get("namespace"), options.get("table")};
            return loaded(options, table, "branch_" + branch);
        }
        String[] namespace = {options.get("namespace")};
        SparkTable found = loaded(options, namespace, options.get("table"));
        String head = options.get("head");
        TableOperations all = ((HasTableOperations) found.table()).operations();
        AtHead operations = new AtHead(all, head.isEmpty() ? null : Long.valueOf(head));
        if (!operations.isAtHead(all.current())) { // a catalog may keep tables for a while
            operations.require(all.refresh());
        }
        return new SparkTable(new BaseTable(operations, found.table().name()));
    }

    private static SparkTable loaded(Map<String, String> options, String[] namespace, String name) {
        var session = (org.apache.spark.sql.classic.SparkSession) SparkSession.active();
        var catalog = session.sessionState().catalogManager().catalog(options.get("catalog"));
        try {
            return (SparkTable) ((TableCatalog) catalog).loadTable(Identifier.of(namespace, name));
        } catch (NoSuchTableException error) {
            throw new IllegalStateException("there is no table " + name, error);
        }
    }
}
