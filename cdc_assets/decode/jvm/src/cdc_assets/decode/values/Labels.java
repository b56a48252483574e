package cdc_assets.decode.values;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** Decodes texts of which only some are values: of enumerations, of sets, and of numbers. */
final class Labels {
    private static final JsonFactory JSON = new JsonFactory();
    private static final int MOST_OF_A_SET = 64;
    private static final UTF8String NOTHING = UTF8String.fromString("");

    /** Debezium's words for a {@code numeric} that is no number, and PostgreSQL's. */
    private static final Map<String, UTF8String> WORDS =
            Map.of(
                    "NAN", UTF8String.fromString("NaN"),
                    "POSITIVE_INFINITY", UTF8String.fromString("Infinity"),
                    "NEGATIVE_INFINITY", UTF8String.fromString("-Infinity"));

    private Labels() {}

    /** Returns the label of a number from 1; 0, MySQL's mark of an invalid value, is no text. */
    static UTF8String ofOrdinal(UTF8String text, List<UTF8String> labels) {
        Object found = Numbers.fitting(Numbers.whole(text), DataTypes.IntegerType);
        if (!(found instanceof Integer ordinal) || ordinal < 0 || ordinal > labels.size()) {
            return null;
        }
        return ordinal == 0 ? NOTHING : labels.get(ordinal - 1);
    }

    /** Returns the labels whose bits are set, with commas between them; null if a bit has none. */
    static UTF8String ofBits(UTF8String text, List<UTF8String> labels) {
        Long bits = Numbers.bitsOf(text);
        int count = Math.min(labels.size(), MOST_OF_A_SET);
        if (bits == null || count < MOST_OF_A_SET && bits >>> count != 0) {
            return null;
        }
        List<UTF8String> found = new ArrayList<>();
        for (int at = 0; at < count; at++) {
            if ((bits >>> at & 1) != 0) {
                found.add(labels.get(at));
            }
        }
        return joined(found);
    }

    /** Reads an array of labels in JSON. */
    static UTF8String ofArray(UTF8String text) {
        List<UTF8String> found = new ArrayList<>();
        try (JsonParser parser = JSON.createParser(text.getBytes())) {
            if (parser.nextToken() != JsonToken.START_ARRAY) {
                return null;
            }
            while (parser.nextToken() == JsonToken.VALUE_STRING) {
                found.add(UTF8String.fromString(parser.getText()));
            }
            boolean isRead = parser.currentToken() == JsonToken.END_ARRAY && parser.nextToken() == null;
            return isRead ? joined(found) : null;
        } catch (IOException error) {
            return null;
        }
    }

    private static UTF8String joined(List<UTF8String> labels) {
        return UTF8String.concatWs(UTF8String.fromString(","), labels.toArray(new UTF8String[0]));
    }

    /**
     * Returns a text that is a label, or labels of a set, of its record's own schema.
     *
     * <p>The schema has the labels with commas between them, and an enumeration's may hold commas.
     * MySQL has the empty text in place of an invalid value.
     *
     * @param all the labels with commas around each
     * @param each the labels
     */
    static UTF8String known(UTF8String text, Arriving column, UTF8String all, Set<UTF8String> each) {
        boolean isKnown = text.numBytes() == 0 || (column.many ? areIn(text, each) : isIn(text, all));
        return isKnown || !column.isClosed && new Scan(text).digits() < text.numBytes() ? text : null;
    }

    /**
     * Returns the same of a closed list in which commas and backslashes within labels are escaped.
     *
     * <p>MySQL's connector escapes them in the list and, before Debezium 3.7, in changes, but not in
     * snapshots. From 3.7 on the list has a label's backslash four times, and is not understood.
     */
    static UTF8String unescaped(UTF8String text, Arriving column, UTF8String all) {
        if (text.numBytes() == 0 || !column.many) {
            return text.numBytes() == 0 ? text : plain(text, all);
        }
        List<UTF8String> found = new ArrayList<>();
        for (String each : text.toString().split(",", -1)) {
            UTF8String label = plain(UTF8String.fromString(each), all);
            if (label == null) {
                return null;
            }
            found.add(label);
        }
        return joined(found);
    }

    /** Returns a label without escapes; null if it is none, or may be another, too. */
    private static UTF8String plain(UTF8String text, UTF8String all) {
        String given = text.toString(), bare = withoutEscapes(given);
        if (isIn(text, all)) {
            return bare == null ? null : UTF8String.fromString(bare);
        }
        String escaped = given.replace("\\", "\\\\").replace(",", "\\,");
        boolean hasEscapes = bare != null && !bare.equals(given);
        return !hasEscapes && isIn(UTF8String.fromString(escaped), all) ? text : null;
    }

    /** Returns null if a backslash stands before anything but a comma or a backslash. */
    private static String withoutEscapes(String text) {
        StringBuilder found = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            if (text.charAt(at) == '\\' && (++at == text.length() || ",\\".indexOf(text.charAt(at)) < 0)) {
                return null;
            }
            found.append(text.charAt(at));
        }
        return found.toString();
    }

    private static boolean isIn(UTF8String text, UTF8String all) {
        UTF8String comma = UTF8String.fromString(",");
        return all.contains(UTF8String.concat(comma, text, comma));
    }

    private static boolean areIn(UTF8String text, Set<UTF8String> labels) {
        for (String each : text.toString().split(",", -1)) {
            if (!labels.contains(UTF8String.fromString(each))) {
                return false;
            }
        }
        return true;
    }

    /** Returns a text that is a number, in PostgreSQL's words if it is none of digits. */
    static UTF8String number(UTF8String text) {
        if (Numbers.isNumber(text)) {
            return text;
        }
        return text.numBytes() > 20 ? null : WORDS.get(text.toString());
    }
}
