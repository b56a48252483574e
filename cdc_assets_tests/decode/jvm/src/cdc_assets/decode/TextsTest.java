package cdc_assets.decode;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Random;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** The faults of bytes, against Java's own decoder and a text that is written out. */
class TextsTest {
    private static final byte[][] PARTS = {
        {'a'}, {'"'}, {'\\'}, {'\\', '\\'}, {'\\', 'n'}, {'\\', 'u'}, {'u'}, {'0'}, {(byte) 0xc3, (byte) 0xa9},
        {(byte) 0xf0, (byte) 0x9f, (byte) 0x98, (byte) 0x80}, {(byte) 0x80}, {(byte) 0xed, (byte) 0xa0, (byte) 0x80},
        {'\\', 'u', 'D', '8', '3', 'd'}, {'\\', 'u', 'd', 'e', '0', '0'}, {'\\', 'u', '0', '0', 'e', '9'},
        {'m', 'o', 'r', 'e', ' ', 't', 'h', 'a', 'n', ' ', 'a', ' ', 'w', 'o', 'r', 'd'},
    };

    private static final Pattern ESCAPE = Pattern.compile("\\\\u[0-9a-fA-F]{4}");

    @Test
    void faultsAreThoseOfJavasDecoder() {
        Random random = new Random(1);
        int[] found = new int[Fault.values().length + 1];
        for (int n = 0; n < 100_000; n++) {
            byte[] bytes = bytes(random, random.nextInt(12));
            Fault fault = Texts.fault(bytes);
            assertEquals(expected(bytes), fault, () -> HexFormat.of().formatHex(bytes));
            found[fault == null ? found.length - 1 : fault.ordinal()]++;
        }
        assertEquals(0, found[Fault.OTHER_SHAPE.ordinal()]);
        for (Fault each : new Fault[] {Fault.NOT_UTF8, Fault.HALF_A_CHARACTER}) {
            assertEquals(true, found[each.ordinal()] > 1000, each::name);
        }
    }

    private static byte[] bytes(Random random, int parts) {
        ByteBuffer found = ByteBuffer.allocate(16 * parts + 9);
        for (int at = random.nextInt(10); at > 0; at--) {
            found.put((byte) 'x'); // words of eight bytes begin anywhere
        }
        for (int at = 0; at < parts; at++) {
            found.put(PARTS[random.nextInt(PARTS.length)]);
        }
        byte[] whole = new byte[found.position()];
        found.flip().get(whole);
        return whole;
    }

    private static Fault expected(byte[] bytes) {
        String text;
        try {
            text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException error) {
            return Fault.NOT_UTF8;
        }
        String written = unescaped(text);
        boolean isWhole = written.equals(new String(written.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8));
        return isWhole ? null : Fault.HALF_A_CHARACTER;
    }

    private static String unescaped(String text) {
        StringBuilder found = new StringBuilder();
        for (int at = 0; at < text.length(); at++) {
            if (text.charAt(at) != '\\' || at + 1 == text.length()) {
                found.append(text.charAt(at));
            } else if (ESCAPE.matcher(text).region(at, text.length()).lookingAt()) {
                found.append((char) Integer.parseInt(text.substring(at + 2, at + 6), 16));
                at += 5;
            } else {
                found.append('.');
                at += Character.charCount(text.codePointAt(at + 1));
            }
        }
        return found.toString();
    }
}
