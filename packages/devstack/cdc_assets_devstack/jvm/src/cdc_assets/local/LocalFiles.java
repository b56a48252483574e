package cdc_assets.local;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, with permissions set by Java.
 *
 * <p>Without its native library, which pyspark does not bring, Hadoop starts the program {@code
 * chmod} for each file that it creates: some 30 times for a small batch.
 */
public final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    private static final class Raw extends RawLocalFileSystem {
        /** From the lowest bit of a mode upwards. */
        private static final PosixFilePermission[] BITS = {
            PosixFilePermission.OTHERS_EXECUTE,
            PosixFilePermission.OTHERS_WRITE,
            PosixFilePermission.OTHERS_READ,
            PosixFilePermission.GROUP_EXECUTE,
            PosixFilePermission.GROUP_WRITE,
            PosixFilePermission.GROUP_READ,
            PosixFilePermission.OWNER_EXECUTE,
            PosixFilePermission.OWNER_WRITE,
            PosixFilePermission.OWNER_READ,
        };

        @Override
        public void setPermission(Path path, FsPermission permission) throws IOException {
            int mode = permission.toShort();
            java.nio.file.Path file = pathToFile(path).toPath();
            PosixFileAttributeView view =
                    Files.getFileAttributeView(file, PosixFileAttributeView.class);
            if (view == null || mode >> BITS.length != 0) {  // the sticky bit, which Java lacks
                super.setPermission(path, permission);
                return;
            }
            view.setPermissions(permissions(mode));
        }

        private static Set<PosixFilePermission> permissions(int mode) {
            Set<PosixFilePermission> found = EnumSet.noneOf(PosixFilePermission.class);
            for (int bit = 0; bit < BITS.length; bit++) {
                if ((mode >> bit & 1) == 1) {
                    found.add(BITS[bit]);
                }
            }
            return found;
        }
    }
}
