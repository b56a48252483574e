package cdc_assets.decode;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;

/** Reads JSON's arrays. */
final class ListReader extends ValueReader {
    private final ValueReader element;

    ListReader(ArrayType type) {
        element = of(type.elementType());
    }

    @Override
    DataType type() {
        return new ArrayType(element.type(), true);
    }

    @Override
    Object some(JsonToken token, JsonParser parser, Faults faults) throws IOException {
        if (token != JsonToken.START_ARRAY) {
            return null;
        }
        List<Object> found = new ArrayList<>();
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            if (parser.currentToken() == null) {
                throw new IOException("no end");
            }
            found.add(element.read(parser, faults));
        }
        return new GenericArrayData(found.toArray());
    }
}
