package cdc_assets.decode.values;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/** A column as it arrives: what {@code cdc_assets.schema.types.Column} has of it. */
public final class Arriving {
    /** Its name in records. */
    public final String name;

    /** As it is named in errors. */
    public final String said;

    /** Its own type, and that as errors have it. */
    public final DataType type;

    public final String saidType;

    /** Whether a change may leave its value out. */
    public final boolean mayBeLeftOut;

    final String wire;
    final String wireOfElements;
    final int scale;
    final List<UTF8String> labels;
    final boolean many;
    final boolean isClosed;
    final boolean isNumber;
    final boolean isMasked;
    final String salt;
    final ZoneId zone;
    final int width;
    final int least;
    final int bits;

    public Arriving(JsonNode told) {
        name = told.path("name").asText();
        said = told.path("said").asText();
        saidType = told.path("type").asText();
        type = Types.of(saidType);
        mayBeLeftOut = told.path("may_be_left_out").asBoolean();
        wire = told.path("wire").asText();
        wireOfElements = told.path("element_wire").asText();
        scale = told.path("scale").asInt();
        labels = new ArrayList<>();
        told.path("labels").forEach(each -> labels.add(UTF8String.fromString(each.asText())));
        many = told.path("many").asBoolean();
        isClosed = told.path("is_closed").asBoolean();
        isNumber = told.path("number").asBoolean();
        isMasked = told.path("mask").asBoolean();
        salt = told.path("salt").asText();
        String place = told.path("zone").asText();
        zone = place.isEmpty() ? null : DateTimeUtils.getZoneId(place);
        width = told.path("width").asInt();
        least = told.path("least").asInt();
        bits = told.path("bits").asInt();
    }

    /** Returns whether it arrives as texts that are their values: one, or a list of them. */
    public boolean isOfTexts() {
        return (wireOfElements.isEmpty() ? wire : wireOfElements).equals("string");
    }

    /** Returns whether it arrives as a text that is its value. */
    public boolean isText() {
        return wire.equals("string");
    }
}
