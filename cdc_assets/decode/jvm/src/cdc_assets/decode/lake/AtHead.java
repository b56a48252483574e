package cdc_assets.decode.lake;

import java.util.Objects;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/**
 * A table's operations, which commit only while ``main`` is at one snapshot.
 *
 * <p>Iceberg repeats a commit on the table's new state if another one came first. Here that is
 * refused, if the other one has moved ``main``. The catalog compares the state that is judged here
 * with its own, so nothing comes between the judgement and the commit.
 */
final class AtHead implements TableOperations {
    private final TableOperations all;
    private final Long head;

    /** ``head`` is null for a table without a snapshot. */
    AtHead(TableOperations all, Long head) {
        this.all = all;
        this.head = head;
    }

    boolean isAtHead(TableMetadata state) {
        return Objects.equals(main(state), head);
    }

    /** Refuses a state in which ``main`` is elsewhere. */
    void require(TableMetadata state) {
        ValidationException.check(
                isAtHead(state), "main is at snapshot %s, and no more at %s", main(state), head);
    }

    private static Long main(TableMetadata state) {
        Snapshot main = state.currentSnapshot();
        return main == null ? null : main.snapshotId();
    }

    @Override
    public void commit(TableMetadata base, TableMetadata next) {
        require(base);
        all.commit(base, next);
    }

    @Override
    public TableMetadata current() {
        return all.current();
    }

    @Override
    public TableMetadata refresh() {
        return all.refresh();
    }

    @Override
    public FileIO io() {
        return all.io();
    }

    @Override
    public EncryptionManager encryption() {
        return all.encryption();
    }

    @Override
    public String metadataFileLocation(String file) {
        return all.metadataFileLocation(file);
    }

    @Override
    public LocationProvider locationProvider() {
        return all.locationProvider();
    }

    @Override
    public TableOperations temp(TableMetadata uncommitted) {
        return all.temp(uncommitted);
    }

    @Override
    public long newSnapshotId() {
        return all.newSnapshotId();
    }

    @Override
    public boolean requireStrictCleanup() {
        return all.requireStrictCleanup();
    }
}
