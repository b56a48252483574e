package cdc_assets.decode.values;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.Base64;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.Random;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** What texts stand for, against Java's own classes for the same. */
class TextualTest {
    private static final int TIMES = 50_000;
    private static final long FIRST = LocalDate.of(1, 1, 1).toEpochDay();
    private static final long LAST = LocalDate.of(9999, 12, 31).toEpochDay();

    private final Random random = new Random(1);

    @Test
    void days() {
        int refused = 0;
        for (int n = 0; n < TIMES; n++) {
            String text = mutated(LocalDate.ofEpochDay(random.nextLong(FIRST, LAST + 1)).toString());
            Integer found = Times.day(of(text), false);
            assertEquals(dayOf(text), found, text);
            refused += found == null ? 1 : 0;
        }
        assertTrue(refused > 100 && refused < TIMES / 2, "some of them are no days");
    }

    private static Integer dayOf(String text) {
        try {
            LocalDate day = text.matches("\\d{4}-\\d{2}-\\d{2}") ? LocalDate.parse(text) : null;
            return day == null || day.getYear() < 1 ? null : (Integer) (int) day.toEpochDay();
        } catch (DateTimeException error) {
            return null;
        }
    }

    @Test
    void instants() {
        for (int n = 0; n < TIMES; n++) {
            Instant instant = Instant.ofEpochSecond((FIRST + 1) * 86_400 + random.nextLong((LAST - FIRST - 1) * 86_400));
            instant = instant.plus(random.nextInt(1_000_000), ChronoUnit.MICROS);
            ZoneOffset offset = ZoneOffset.ofTotalSeconds(60 * random.nextInt(-18 * 60, 18 * 60 + 1));
            OffsetDateTime at = instant.atOffset(offset);
            String text = (at.getSecond() == 0 && at.getNano() == 0 ? at.plusSeconds(1) : at).toString();
            Instant told = OffsetDateTime.parse(text).toInstant();
            long micros = told.getEpochSecond() * 1_000_000 + told.getNano() / 1000;
            assertEquals(micros, Times.zoned(of(text)), text);
        }
    }

    @Test
    void bytesInText() {
        for (int n = 0; n < TIMES / 10; n++) {
            byte[] bytes = new byte[random.nextInt(40)];
            random.nextBytes(bytes);
            assertArrayEquals(bytes, Octets.hex(of(HexFormat.of().formatHex(bytes))));
            assertArrayEquals(bytes, Octets.base64(of(Base64.getEncoder().encodeToString(bytes))));
            assertArrayEquals(bytes, Octets.base64(of(Base64.getUrlEncoder().encodeToString(bytes))));
            assertArrayEquals(bytes, Octets.latin1(of(new String(bytes, StandardCharsets.ISO_8859_1))));
            int count = 8 * bytes.length;
            UTF8String bits = count == 0 ? null : Octets.bits(bytes, count);
            BitSet set = BitSet.valueOf(bytes);
            for (int at = 0; at < count; at++) {
                assertEquals(set.get(at) ? '1' : '0', bits.toString().charAt(count - 1 - at));
            }
        }
        assertNull(Octets.hex(of("0")));
        assertNull(Octets.hex(of("0g")));
        assertNull(Octets.base64(of("AA")));
        assertNull(Octets.base64(of("+_==")), "of both alphabets");
        assertNull(Octets.latin1(of("€")));
        assertNull(Octets.bits(new byte[] {2}, 1), "a bit beyond the last one");
    }

    @Test
    void floatingPointNumbersThatAreWrittenAreRead() {
        for (int n = 0; n < TIMES; n++) {
            double number = Double.longBitsToDouble(random.nextLong());
            if (Double.isFinite(number)) {
                assertEquals(number, Numbers.floating(of(Double.toString(number)), true), () -> "" + number);
                double large = (random.nextDouble() + 1) * (1L << 55 + random.nextInt(7));
                assertEquals(large, Numbers.floating(of(Double.toString(large)), true), () -> "" + large);
            }
            float small = Float.intBitsToFloat(random.nextInt());
            if (Float.isFinite(small)) {
                assertEquals(small, Numbers.floating(of(Float.toString(small)), false), () -> "" + small);
            }
        }
        assertNull(Numbers.floating(of("1e400"), true));
        assertNull(Numbers.floating(of("1e-400"), true));
        assertNull(Numbers.floating(of("1e-50"), false));
        assertNull(Numbers.floating(of("3.1415926535"), false));
        assertEquals(0.1f, Numbers.floating(of("0.10000000149011612"), false), "as it is written as a double");
        assertEquals(2.29052324282634035E18, Numbers.floating(of("2.29052324282634035E18"), true), "as Java 17 writes it");
        assertNull(Numbers.floating(of("0.1000000000000000055511151231257827"), true), "digits that no double has");
        assertNull(Numbers.floating(of("2.290523242826340351E18"), true), "not as Java writes it");
        assertNull(Numbers.floating(of("229052324282634035"), true), "nor without an exponent");
        assertNull(Numbers.floating(of("2.29052324282634035"), true), "nor a small one");
        assertNotNull(Numbers.floating(of("0.10000000000000000000000000000000000"), true));
    }

    private String mutated(String text) {
        if (random.nextInt(4) > 0) {
            return text;
        }
        int at = random.nextInt(text.length());
        char other = "0123456789-+Z \u0661".charAt(random.nextInt(15));
        return text.substring(0, at) + other + text.substring(at + 1);
    }

    private static UTF8String of(String text) {
        return UTF8String.fromString(text);
    }
}
