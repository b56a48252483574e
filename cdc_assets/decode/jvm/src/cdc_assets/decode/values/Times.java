package cdc_assets.decode.values;

import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.YearMonth;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Decodes days, times of day and instants, of the years 0001 to 9999, which every reader of Iceberg
 * supports. Whatever needs more than microseconds is refused.
 */
public final class Times {
    private static final long MICROS = 1_000_000;
    private static final long OF_DAY = 86_400 * MICROS;
    private static final int FIRST_DAY = -719_162;
    private static final int LAST_DAY = 2_932_896;
    private static final long FIRST = FIRST_DAY * OF_DAY;
    private static final long LAST = (LAST_DAY + 1) * OF_DAY - 1;
    private static final int HOURS_OF_OFFSET = 18;
    private static final long NONE = Long.MIN_VALUE;

    private Times() {}

    // ── numbers ──────────────────────────────────────────────────────────────────────────────

    static Integer day(int days) {
        return days >= FIRST_DAY && days <= LAST_DAY ? (Integer) days : null;
    }

    /** Returns the same; null if these years do not hold it. */
    public static Long ofMicros(long micros) {
        return micros >= FIRST && micros <= LAST ? (Long) micros : null;
    }

    static Long ofMillis(long millis) {
        return millis >= FIRST / 1000 && millis <= LAST / 1000 ? (Long) (millis * 1000) : null;
    }

    /** Returns microseconds of nanoseconds, since 1970 or since midnight. */
    static Long ofNanos(long nanos) {
        return nanos % 1000 == 0 ? (Long) (nanos / 1000) : null;
    }

    // ── texts ────────────────────────────────────────────────────────────────────────────────

    /** Reads {@code yyyy-MM-dd}, perhaps with {@code Z} at its end. */
    static Integer day(UTF8String text, boolean mayHaveZone) {
        Scan scan = new Scan(text);
        LocalDate found = day(scan);
        if (mayHaveZone) {
            scan.take('Z');
        }
        return found == null || !scan.isDone() ? null : day((int) found.toEpochDay());
    }

    /** Reads {@code [-]hhh:mm:ss[.ffffff]}; returns microseconds, which the sign applies to. */
    static Long duration(UTF8String text) {
        Scan scan = new Scan(text);
        boolean isNegative = scan.take('-');
        long found = clock(scan, 3, false);
        return found < 0 || !scan.isDone() ? null : (Long) (isNegative ? -found : found);
    }

    /** Reads {@code hh:mm:ss[.f]}, perhaps with {@code Z} at its end; 24:00:00 is one, too. */
    static Long ofDay(UTF8String text) {
        Scan scan = new Scan(text);
        long found = clock(scan, 2, true);
        scan.take('Z');
        return found < 0 || found > OF_DAY || !scan.isDone() ? null : (Long) found;
    }

    /** Reads {@code yyyy-MM-ddTHH:mm:ss[.f]} with {@code Z} or an offset. */
    static Long zoned(UTF8String text) {
        Scan scan = new Scan(text);
        long local = local(scan, "T", true);
        return local == NONE ? null : atOffset(local, scan);
    }

    /** Reads {@code yyyy-MM-dd HH:mm:ss[.ffffff]}; where clocks have a zone, the instant. */
    static Long local(UTF8String text, ZoneId zone) {
        Scan scan = new Scan(text);
        long local = local(scan, " ", false);
        return local == NONE || !scan.isDone() ? null : inZone(local, zone);
    }

    /** Reads {@code yyyy-MM-ddTHH:mm:ss[.f]}, whose {@code Z} means no zone. */
    static Long iso(UTF8String text, ZoneId zone) {
        Scan scan = new Scan(text);
        long local = local(scan, "T ", true);
        scan.take('Z');
        return local == NONE || !scan.isDone() ? null : inZone(local, zone);
    }

    /** Reads a time with a blank, {@code T} or colon after its day, and no zone. */
    static Long scalar(UTF8String text) {
        Scan scan = new Scan(text);
        long local = local(scan, " T:", true);
        return local == NONE || !scan.isDone() ? null : ofMicros(local);
    }

    /** Reads an instant: such a time with an offset, or in a zone; null stands for no zone. */
    static Long scalarInstant(UTF8String text, ZoneId zone) {
        Scan scan = new Scan(text);
        long local = local(scan, " T:", true);
        if (local == NONE) {
            return null;
        }
        if (scan.isDone()) {
            return zone == null ? null : inZone(local, zone);
        }
        return scan.take(' ') && scan.isNext('Z') ? null : atOffset(local, scan);
    }

    // ── parts ────────────────────────────────────────────────────────────────────────────────

    private static LocalDate day(Scan scan) {
        int year = scan.number(4, 4);
        int month = scan.take('-') ? scan.number(2, 2) : -1;
        int day = scan.take('-') ? scan.number(2, 2) : -1;
        if (year < 0 || month < 1 || month > 12 || day < 1) {
            return null;
        }
        return day > YearMonth.of(year, month).lengthOfMonth() ? null : LocalDate.of(year, month, day);
    }

    /**
     * Reads hours of two digits or more, minutes, seconds and a fraction.
     *
     * @param mayBeLong whether zeros may follow microseconds
     * @return microseconds, -1 for no time
     */
    private static long clock(Scan scan, int mostOfHours, boolean mayBeLong) {
        long hours = scan.number(2, mostOfHours);
        int minutes = scan.take(':') ? scan.number(2, 2) : -1;
        int seconds = scan.take(':') ? scan.number(2, 2) : -1;
        if (hours < 0 || minutes < 0 || minutes > 59 || seconds < 0 || seconds > 59) {
            return -1;
        }
        long micros = ((hours * 60 + minutes) * 60 + seconds) * MICROS;
        if (!scan.take('.')) {
            return micros;
        }
        int from = scan.place();
        int fraction = scan.number(1, 6);
        if (fraction < 0) {
            return -1;
        }
        for (int size = scan.place() - from; size < 6; size++) {
            fraction *= 10;
        }
        if (mayBeLong) {
            scan.skip('0');
        }
        return micros + fraction;
    }

    /** Returns microseconds of a day and a time, with one of these between them. */
    private static long local(Scan scan, String between, boolean mayBeLong) {
        LocalDate day = day(scan);
        boolean isApart = false;
        for (int at = 0; at < between.length() && !isApart; at++) {
            isApart = scan.take(between.charAt(at));
        }
        long clock = day == null || !isApart ? -1 : clock(scan, 2, mayBeLong);
        return clock < 0 || clock >= OF_DAY ? NONE : day.toEpochDay() * OF_DAY + clock;
    }

    private static Long atOffset(long local, Scan scan) {
        int sign = scan.isNext('-') ? -1 : 1;
        long minutes = 0;
        if (!scan.take('Z')) {
            boolean isThere = scan.take('+') || scan.take('-');
            int hours = isThere ? scan.number(2, 2) : -1;
            int rest = scan.take(':') ? scan.number(2, 2) : -1;
            minutes = hours * 60 + rest;
            if (hours < 0 || rest < 0 || rest > 59 || minutes > HOURS_OF_OFFSET * 60) {
                return null;
            }
        }
        return scan.isDone() ? ofMicros(local - sign * minutes * 60 * MICROS) : null;
    }

    /** Returns the instant of a local time; null if a clock change makes it two, or none. */
    private static Long inZone(long local, ZoneId zone) {
        if (zone == null) {
            return ofMicros(local);
        }
        long seconds = Math.floorDiv(local, MICROS);
        LocalDateTime time = LocalDateTime.ofEpochSecond(seconds, 0, ZoneOffset.UTC);
        List<ZoneOffset> offsets = zone.getRules().getValidOffsets(time);
        return offsets.size() != 1 ? null : ofMicros(local - offsets.get(0).getTotalSeconds() * MICROS);
    }
}
