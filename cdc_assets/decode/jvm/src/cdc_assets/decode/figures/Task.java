package cdc_assets.decode.figures;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.io.UncheckedIOException;

/** What a task has counted, by the partition that it has read. */
record Task(int partition, Counts counts) implements Serializable {
    byte[] written() {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
            out.writeObject(this);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    static Task read(byte[] written) {
        try (ObjectInputStream in = new Reader(written)) {
            return (Task) in.readObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Finds our classes where this one is: a thread of Spark's may have another class path. */
    private static final class Reader extends ObjectInputStream {
        Reader(byte[] bytes) throws IOException {
            super(new ByteArrayInputStream(bytes));
        }

        @Override
        protected Class<?> resolveClass(ObjectStreamClass named) throws IOException, ClassNotFoundException {
            return Class.forName(named.getName(), false, Task.class.getClassLoader());
        }
    }
}
