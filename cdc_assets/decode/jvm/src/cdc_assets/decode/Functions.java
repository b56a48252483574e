package cdc_assets.decode;

import cdc_assets.decode.avro.AvroReader;
import cdc_assets.decode.avro.SchemaId;
import cdc_assets.decode.canal.Packets;
import cdc_assets.decode.figures.Counted;
import cdc_assets.decode.figures.Counted.Kind;
import cdc_assets.decode.figures.Told;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of our functions. So nothing is registered, and any session that names the catalog can
 * read records.
 *
 * <p>The functions in ``json`` and ``payload`` are named by what they return: the type of a
 * document, as Spark writes it in JSON. Their argument is the bytes of a document, which has the
 * type itself, or in its field ``payload``. See {@link JsonReader}.
 *
 * <p>Those in ``key`` are named by the type of a record's key, see {@link KeyReader}. Those in
 * ``change`` and ``value`` are named by what is wanted, see {@link Changes} and {@link Value}.
 *
 * <p>Those in ``batch`` and ``fold`` are named by what is to be counted, see {@link Counted}; those in
 * ``told`` by what it is told under, see {@link Told}.
 *
 * <p>Those in ``avro`` are named by the schema and the fields that are read, see {@link AvroReader}.
 *
 * <p>``canal.packets``: see {@link Packets}. ``build``: see {@link Build}. ``key_schema``: see {@link
 * KeySchema}. ``place``: see {@link Place}. ``postgres``: see {@link Postgres}. ``schema_id``: see {@link SchemaId}.
 */
public final class Functions implements FunctionCatalog {
    private static final Map<String, Supplier<BoundFunction>> OTHERS =
            Map.of(
                    "build", Build::new, "key_schema", KeySchema::new, "place", Place::new,
                    "postgres", Postgres::new, "schema_id", SchemaId::new);

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
    public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
        String function = identifier.name();
        return switch (String.join(".", identifier.namespace())) {
            case "json" -> unbound(() -> new JsonReader(DataType.fromJson(function), false));
            case "payload" -> unbound(() -> new JsonReader(DataType.fromJson(function), true));
            case "avro" -> unbound(() -> new AvroReader(function));
            case "key" -> unbound(() -> new KeyReader(DataType.fromJson(function)));
            case "value" -> bound(arguments -> new Value(function, arguments));
            case "change" -> bound(arguments -> new Change(function, arguments));
            case "batch" -> bound(arguments -> new Counted(Kind.BATCH, function, arguments));
            case "fold" -> bound(arguments -> new Counted(Kind.FOLD, function, arguments));
            case "told.batch" -> unbound(() -> new Told(Kind.BATCH, function));
            case "told.fold" -> unbound(() -> new Told(Kind.FOLD, function));
            case "canal" -> named(identifier, Map.of("packets", Packets::new));
            case "" -> named(identifier, OTHERS);
            default -> throw new NoSuchFunctionException(identifier);
        };
    }

    private static UnboundFunction named(
            Identifier identifier, Map<String, Supplier<BoundFunction>> functions)
            throws NoSuchFunctionException {
        Supplier<BoundFunction> made = functions.get(identifier.name());
        if (made == null) {
            throw new NoSuchFunctionException(identifier);
        }
        return unbound(made);
    }

    private static UnboundFunction unbound(Supplier<BoundFunction> made) {
        return bound(arguments -> made.get());
    }

    private static UnboundFunction bound(Function<StructType, BoundFunction> made) {
        return new UnboundFunction() {
            @Override
            public BoundFunction bind(StructType arguments) {
                return made.apply(arguments);
            }

            @Override
            public String description() {
                return name();
            }

            @Override
            public String name() {
                return "cdc_assets";
            }
        };
    }
}
