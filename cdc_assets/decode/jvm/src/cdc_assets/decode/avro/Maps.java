package cdc_assets.decode.avro;

import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** A map, read as one; of a key that is there twice it has the last value. */
final class Maps extends Shape {
    private final Shape values;

    Maps(Shape values) {
        super(DataTypes.createMapType(DataTypes.StringType, values.type));
        this.values = values;
    }

    @Override
    Object read(Binary from) throws Broken {
        Map<UTF8String, Object> found = new LinkedHashMap<>();
        for (int count = from.block(); count > 0; count = from.block()) {
            for (; count > 0; count--) {
                UTF8String key = from.text();
                found.put(key, values.read(from));
            }
        }
        return new ArrayBasedMapData(
                new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray()));
    }

    @Override
    void skip(Binary from) throws Broken {
        for (int count = from.block(); count > 0; count = from.block()) {
            for (; count > 0; count--) {
                from.skipLength();
                values.skip(from);
            }
        }
    }
}
