package cdc_assets.decode.avro;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;

/** A list, read as an array. */
final class Lists extends Shape {
    private final Shape items;

    Lists(Shape items) {
        super(DataTypes.createArrayType(items.type));
        this.items = items;
    }

    @Override
    Object read(Binary from) throws Broken {
        List<Object> found = new ArrayList<>();
        for (int count = from.block(); count > 0; count = from.block()) {
            for (; count > 0; count--) {
                found.add(items.read(from));
            }
        }
        return new GenericArrayData(found.toArray());
    }

    @Override
    void skip(Binary from) throws Broken {
        for (int count = from.block(); count > 0; count = from.block()) {
            for (; count > 0; count--) {
                items.skip(from);
            }
        }
    }
}
