package cdc_assets.decode;

import static java.nio.charset.StandardCharsets.US_ASCII;

/** What Kafka Connect's converter has around a value: ``{"schema": …, "payload": …}``. */
final class Around {
    private static final byte[][] SCHEMA = tokens("{", "\"schema\"", ":");
    private static final byte[][] PAYLOAD = tokens("null", ",", "\"payload\"", ":");
    private static final byte[][] OBJECT = tokens("{");
    private static final byte[][] NULL = tokens("null", "}");

    private Around() {}

    private static byte[][] tokens(String... texts) {
        byte[][] found = new byte[texts.length][];
        for (int at = 0; at < texts.length; at++) {
            found[at] = texts[at].getBytes(US_ASCII);
        }
        return found;
    }

    /** Returns whether an object begins with a schema. */
    static boolean hasSchema(byte[] bytes) {
        return after(bytes, 0, SCHEMA) >= 0;
    }

    /** Returns whether an object begins with a schema that is null, around an object or null. */
    static boolean isEmpty(byte[] bytes) {
        int payload = after(bytes, after(bytes, 0, SCHEMA), PAYLOAD);
        return after(bytes, payload, OBJECT) >= 0 || after(bytes, payload, NULL) >= 0;
    }

    /** Returns the place behind these tokens, with any blanks before each; -1 if they are not there. */
    private static int after(byte[] bytes, int from, byte[][] tokens) {
        int at = from;
        for (byte[] token : tokens) {
            while (at >= 0 && at < bytes.length && isBlank(bytes[at])) {
                at++;
            }
            at = isThere(bytes, at, token) ? at + token.length : -1;
        }
        return at;
    }

    /** Returns whether bytes have these at a place. */
    static boolean isThere(byte[] bytes, int at, byte[] token) {
        if (at < 0 || at + token.length > bytes.length) {
            return false;
        }
        for (int i = 0; i < token.length; i++) {
            if (bytes[at + i] != token[i]) {
                return false;
            }
        }
        return true;
    }

    private static boolean isBlank(byte each) {
        return each == ' ' || each == '\t' || each == '\n' || each == '\r';
    }
}
