package cdc_assets.decode.avro;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType$;
import org.apache.spark.unsafe.types.UTF8String;

/** The shape of values without others in them. */
final class Scalars extends Shape {
    private final Reading reading;
    private final Passing passing;

    private interface Reading {
        Object from(Binary binary) throws Broken;
    }

    private interface Passing {
        void over(Binary binary) throws Broken;
    }

    private Scalars(DataType type, Reading reading, Passing passing) {
        super(type);
        this.reading = reading;
        this.passing = passing;
    }

    /** Returns the shape of a type that has no name. */
    static Shape of(String type) {
        return switch (type) {
            case "null" -> new Scalars(NullType$.MODULE$, from -> null, from -> {});
            case "boolean" -> new Scalars(DataTypes.BooleanType, Binary::flag, from -> from.skip(1));
            case "int" -> new Scalars(DataTypes.IntegerType, Binary::number, Binary::number);
            case "long" -> new Scalars(DataTypes.LongType, Binary::large, Binary::large);
            case "float" -> new Scalars(DataTypes.FloatType, Binary::single, from -> from.skip(Float.BYTES));
            case "double" -> new Scalars(DataTypes.DoubleType, Binary::twofold, from -> from.skip(Double.BYTES));
            case "string" -> new Scalars(DataTypes.StringType, Binary::text, Binary::skipLength);
            case "bytes" -> new Scalars(DataTypes.BinaryType, Binary::octets, Binary::skipLength);
            default -> throw new IllegalArgumentException("Avro has no type " + type);
        };
    }

    /** Returns the shape of bytes whose number is fixed. */
    static Shape fixed(int size) {
        return new Scalars(DataTypes.BinaryType, from -> from.octets(size), from -> from.skip(size));
    }

    /** Returns the shape of an enumeration, which is read as the text of its symbols. */
    static Shape labels(UTF8String[] symbols) {
        Reading symbol = from -> {
            int place = from.number();
            if (place < 0 || place >= symbols.length) {
                throw new Broken();
            }
            return symbols[place];
        };
        return new Scalars(DataTypes.StringType, symbol, symbol::from);
    }

    @Override
    Object read(Binary from) throws Broken {
        return reading.from(from);
    }

    @Override
    void skip(Binary from) throws Broken {
        passing.over(from);
    }
}
