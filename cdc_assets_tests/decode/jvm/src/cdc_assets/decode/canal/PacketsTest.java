package cdc_assets.decode.canal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.junit.jupiter.api.Test;

/** Packets that are whole, cut off, and changed at random. */
class PacketsTest {
    private static final ObjectMapper TREES = new ObjectMapper();
    private static final int INSERT = 1, ROWS = 3;

    @Test
    void aPacketGivesItsMessage() throws IOException {
        List<JsonNode> found = messages(packet());
        assertEquals(1, found.size());
        JsonNode message = found.get(0);
        assertEquals("shop", message.path("database").asText());
        assertEquals("INSERT", message.path("type").asText());
        assertEquals(ROWS, message.path("data").size());
        assertEquals("n2", message.path("data").get(2).path("name").asText());
    }

    @Test
    void aPacketThatIsCutOffIsRefusedWhereverItEnds() throws IOException {
        byte[] whole = packet();
        for (int size = 0; size < whole.length; size++) {
            List<JsonNode> found = messages(Arrays.copyOf(whole, size));
            assertTrue(found.stream().anyMatch(each -> each.has("reject") || each.path("type").asText().equals("TRANSACTION")));
        }
    }

    @Test
    void nothingIsRaisedWhateverTheBytesAre() throws IOException {
        Random random = new Random(1);
        byte[] whole = packet();
        for (int n = 0; n < 50_000; n++) {
            byte[] bytes = whole.clone();
            for (int times = random.nextInt(4); times >= 0; times--) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt(256);
            }
            messages(bytes); // each of them is JSON
        }
    }

    private static List<JsonNode> messages(byte[] packet) throws IOException {
        ArrayData found = new Packets().invoke(new GenericInternalRow(new Object[] {packet}));
        List<JsonNode> messages = new ArrayList<>();
        for (int at = 0; at < found.numElements(); at++) {
            messages.add(TREES.readTree(found.getStruct(at, 2).getBinary(1)));
        }
        return messages;
    }

    // ── protobuf ─────────────────────────────────────────────────────────────────────────────

    private static byte[] packet() {
        Proto stored = new Proto().number(1, 5).number(2, INSERT);
        for (int row = 0; row < ROWS; row++) {
            Proto of = new Proto();
            of.message(2, new Proto().number(1, 0).number(2, 4).text(3, "id").number(4, 1).text(8, "" + row).text(10, "int"));
            of.message(2, new Proto().number(1, 1).number(2, 12).text(3, "name").text(8, "n" + row).text(10, "varchar(9)"));
            stored.message(12, of);
        }
        Proto header = new Proto().number(6, 1_700_000_000_000L).text(8, "shop").text(9, "orders").number(11, INSERT);
        Proto entry = new Proto().message(1, header).number(2, 2).bytes(3, stored.done());
        return new Proto().number(3, 7).bytes(5, new Proto().number(1, 1).bytes(2, entry.done()).done()).done();
    }

    private static final class Proto {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();

        Proto number(int field, long value) {
            varint(field << 3);
            varint(value);
            return this;
        }

        Proto text(int field, String value) {
            return bytes(field, value.getBytes(StandardCharsets.UTF_8));
        }

        Proto message(int field, Proto value) {
            return bytes(field, value.done());
        }

        Proto bytes(int field, byte[] value) {
            varint(field << 3 | 2);
            varint(value.length);
            out.writeBytes(value);
            return this;
        }

        byte[] done() {
            return out.toByteArray();
        }

        private void varint(long value) {
            long left = value;
            for (; left > 0x7f; left >>>= 7) {
                out.write((int) (left & 0x7f | 0x80));
            }
            out.write((int) left);
        }
    }
}
