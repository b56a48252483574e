package cdc_assets.decode.values;

import java.util.Arrays;
import java.util.Base64;
import org.apache.spark.unsafe.types.UTF8String;

/** Decodes bytes that are written as text, and bits. */
public final class Octets {
    private Octets() {}

    /** Returns one byte for each character of ISO-8859-1; null if there are others. */
    static byte[] latin1(UTF8String text) {
        byte[] given = text.getBytes();
        byte[] found = new byte[given.length];
        int size = 0;
        for (int at = 0; at < given.length; at++) {
            int each = given[at] & 0xff;
            if (each >= 0x80) {
                if (each > 0xc3 || ++at == given.length) {
                    return null;
                }
                each = (each & 3) << 6 | given[at] & 0x3f;
            }
            found[size++] = (byte) each;
        }
        return Arrays.copyOf(found, size);
    }

    /**
     * Adds the zero bytes that a value arrives without; null if it is too long.
     *
     * @param width of every value; 0 if they arrive whole
     * @param least bytes of a value
     */
    static byte[] padded(byte[] bytes, int width, int least) {
        if (bytes == null || width > 0 && bytes.length > width) {
            return null;
        }
        return Arrays.copyOf(bytes, Math.max(bytes.length, Math.max(width, least)));
    }

    /** Returns the text whose bytes in UTF-8 are written so. */
    static UTF8String text(UTF8String text) {
        byte[] bytes = latin1(text);
        UTF8String found = bytes == null ? null : UTF8String.fromBytes(bytes);
        return found != null && found.isValid() ? found : null;
    }

    static byte[] hex(UTF8String text) {
        byte[] given = text.getBytes();
        if (given.length % 2 != 0) {
            return null;
        }
        byte[] found = new byte[given.length / 2];
        for (int at = 0; at < given.length; at += 2) {
            int high = Character.digit(given[at], 16), low = Character.digit(given[at + 1], 16);
            if (high < 0 || low < 0) {
                return null;
            }
            found[at / 2] = (byte) (high << 4 | low);
        }
        return found;
    }

    /** Reads either alphabet of base64; returns null for a text that is not padded, or neither. */
    public static byte[] base64(UTF8String text) {
        if (text.numBytes() % 4 != 0) {
            return null;
        }
        byte[] found = decoded(text, Base64.getDecoder());
        return found == null ? decoded(text, Base64.getUrlDecoder()) : found;
    }

    private static byte[] decoded(UTF8String text, Base64.Decoder alphabet) {
        try {
            return alphabet.decode(text.getBytes());
        } catch (IllegalArgumentException error) {
            return null;
        }
    }

    /** Returns little-endian bits as zeros and ones, the highest first; null if there are more. */
    static UTF8String bits(byte[] bytes, int count) {
        if (bytes.length > (count + 7) / 8) {
            return null;
        }
        byte[] found = new byte[count];
        Arrays.fill(found, (byte) '0');
        for (int at = 0; at < 8 * bytes.length; at++) {
            boolean isSet = (bytes[at / 8] >> at % 8 & 1) != 0;
            if (isSet && at >= count) {
                return null;
            }
            if (isSet) {
                found[count - 1 - at] = '1';
            }
        }
        return UTF8String.fromBytes(found);
    }
}
