package cdc_assets.decode;

import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog whose functions are named by what they return: the type of a document, as Spark writes
 * it in JSON. So nothing is registered, and any session that names the catalog can read records.
 *
 * <p>The argument is the bytes of a document. In the namespace ``json`` the document has the type
 * itself, in ``payload`` the field of this name in it. See {@link JsonReader}.
 */
public final class Functions implements FunctionCatalog {
    private static final String WRAPPED = "payload";

    private String name;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        this.name = name;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public boolean functionExists(Identifier identifier) {
        return true;
    }

    @Override
    public UnboundFunction loadFunction(Identifier identifier) {
        return new UnboundFunction() {
            @Override
            public BoundFunction bind(StructType arguments) {
                boolean isWrapped = WRAPPED.equals(identifier.namespace()[0]);
                return new JsonReader(DataType.fromJson(identifier.name()), isWrapped);
            }

            @Override
            public String description() {
                return "reads JSON";
            }

            @Override
            public String name() {
                return "json";
            }
        };
    }
}
