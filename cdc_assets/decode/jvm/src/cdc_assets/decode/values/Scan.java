package cdc_assets.decode.values;

import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.types.UTF8String;

/** Reads a text from its beginning to its end, in time that grows with its length only. */
final class Scan {
    private final byte[] text;
    private int at;

    Scan(UTF8String text) {
        this.text = text.getBytes();
    }

    boolean isDone() {
        return at == text.length;
    }

    /** Returns the place of the next byte. */
    int place() {
        return at;
    }

    /** Returns the bytes between two places as text. */
    String between(int from, int to) {
        return new String(text, from, to - from, StandardCharsets.US_ASCII);
    }

    boolean isNext(char wanted) {
        return at < text.length && text[at] == wanted;
    }

    /** Passes a character; returns whether it was there. */
    boolean take(char wanted) {
        boolean found = isNext(wanted);
        at += found ? 1 : 0;
        return found;
    }

    /** Passes any number of this character. */
    void skip(char wanted) {
        while (isNext(wanted)) {
            at++;
        }
    }

    /** Passes digits up to the first other character; returns how many these were. */
    int digits() {
        int from = at;
        while (at < text.length && isDigit()) {
            at++;
        }
        return at - from;
    }

    /** Reads up to nine digits; returns -1 if there are fewer than the least. */
    int number(int least, int most) {
        int from = at, found = 0;
        while (at < text.length && at - from < most && isDigit()) {
            found = 10 * found + text[at++] - '0';
        }
        return at - from < least ? -1 : found;
    }

    private boolean isDigit() {
        return text[at] >= '0' && text[at] <= '9';
    }
}
