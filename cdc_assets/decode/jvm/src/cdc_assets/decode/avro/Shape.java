package cdc_assets.decode.avro;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType$;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A type of Avro's: how its values are read, and as which type of Spark's.
 *
 * <p>Schemas are those that {@code cdc_assets.schema.avro_wire} writes: without logical types, no type
 * holds itself, and each item of a list takes bytes.
 */
abstract class Shape {
    private static final JsonNode ALL = MissingNode.getInstance();

    /** Among a record's fields, the names of those whose texts must be UTF-8, wherever they are in it. */
    private static final String UTF8 = "__utf8";

    /** The type that its values are read as. */
    final DataType type;

    Shape(DataType type) {
        this.type = type;
    }

    /** Reads a value; null for Avro's null. */
    abstract Object read(Binary from) throws Broken;

    /** Passes over a value. */
    abstract void skip(Binary from) throws Broken;

    /**
     * Returns the shape of a schema.
     *
     * @param fields that are read of a record, by their names, each with those of a record in it; all
     *     of them if it is missing or empty; with {@value #UTF8}, see {@link Records}
     */
    static Shape of(JsonNode schema, JsonNode fields) {
        return new Schemas().shape(schema, fields);
    }

    /** Knows the types that have names, whose schema is written at their first mention. */
    private static final class Schemas {
        private final Map<String, JsonNode> named = new HashMap<>();

        Shape shape(JsonNode schema, JsonNode fields) {
            if (schema.isArray()) {
                return union(schema, fields);
            }
            if (schema.isObject()) {
                if (schema.has("name")) {
                    named.put(schema.get("name").asText(), schema);
                }
                return compound(schema, fields);
            }
            JsonNode known = named.get(schema.asText());
            return known == null ? Scalars.of(schema.asText()) : compound(known, fields);
        }

        private Shape compound(JsonNode schema, JsonNode fields) {
            String kind = schema.path("type").asText();
            return switch (kind) {
                case "record" -> record(schema, fields);
                case "array" -> new Lists(shape(schema.get("items"), ALL));
                case "map" -> new Maps(shape(schema.get("values"), ALL));
                case "fixed" -> Scalars.fixed(schema.get("size").asInt());
                case "enum" -> {
                    List<UTF8String> symbols = new ArrayList<>();
                    schema.get("symbols").forEach(each -> symbols.add(UTF8String.fromString(each.asText())));
                    yield Scalars.labels(symbols.toArray(UTF8String[]::new));
                }
                default -> shape(schema.get("type"), fields);
            };
        }

        private Shape record(JsonNode schema, JsonNode fields) {
            List<String> names = new ArrayList<>();
            List<Shape> shapes = new ArrayList<>();
            List<Boolean> isRead = new ArrayList<>();
            boolean areAll = fields.isEmpty();
            Set<String> looked = new HashSet<>();
            fields.path(UTF8).forEach(each -> looked.add(each.asText()));
            for (JsonNode field : schema.get("fields")) {
                String name = field.get("name").asText();
                names.add(name);
                shapes.add(shape(field.get("type"), fields.path(name)));
                isRead.add(areAll || fields.has(name));
            }
            return new Records(names, shapes, isRead, looked);
        }

        private Shape union(JsonNode schema, JsonNode fields) {
            List<Shape> branches = new ArrayList<>();
            List<Shape> others = new ArrayList<>();
            boolean isOne = count(schema) == 1;
            for (JsonNode each : schema) {
                boolean isNull = each.asText().equals("null");
                Shape branch = isNull ? null : shape(each, isOne ? fields : ALL);
                branches.add(branch);
                if (!isNull) {
                    others.add(branch);
                }
            }
            return new Unions(branches, others, merged(others));
        }

        private static int count(JsonNode schema) {
            int found = 0;
            for (JsonNode each : schema) {
                found += each.asText().equals("null") ? 0 : 1;
            }
            return found;
        }

        /** Returns the one type that has all values of these; null if there is none. */
        private static DataType merged(List<Shape> shapes) {
            List<DataType> types = shapes.stream().map(each -> each.type).distinct().toList();
            if (types.isEmpty()) {
                return NullType$.MODULE$;
            }
            if (shapes.size() == 1) {
                return types.get(0);
            }
            boolean areTwo = shapes.size() == 2 && types.size() == 2;
            if (areTwo && types.contains(DataTypes.IntegerType) && types.contains(DataTypes.LongType)) {
                return DataTypes.LongType;
            }
            boolean areReal = types.contains(DataTypes.FloatType) && types.contains(DataTypes.DoubleType);
            return areTwo && areReal ? DataTypes.DoubleType : null;
        }
    }
}
