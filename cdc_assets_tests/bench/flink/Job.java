import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Executes statements several times in one JVM, and prints the seconds and CPU seconds of each turn.
 *
 * <p>Arguments: folder of Flink's configuration, file of statements, number of turns. ``$N`` is the
 * turn.
 */
public class Job {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = GlobalConfiguration.loadConfiguration(arguments[0]);
        String[] statements = Files.readString(Path.of(arguments[1])).split(";\\s*\n");
        TableEnvironment environment =
                TableEnvironment.create(
                        EnvironmentSettings.newInstance()
                                .inStreamingMode()
                                .withConfiguration(configuration)
                                .build());
        for (int turn = 0; turn < Integer.parseInt(arguments[2]); turn++) {
            long began = System.nanoTime();
            long before = cpuNanos();
            for (String each : statements) {
                environment.executeSql(each.strip().replace("$N", "" + turn)).await();
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            System.out.println("turn " + seconds + " " + (cpuNanos() - before) / 1e9);
        }
    }

    private static long cpuNanos() {
        var system = ManagementFactory.getOperatingSystemMXBean();
        return ((com.sun.management.OperatingSystemMXBean) system).getProcessCpuTime();
    }
}
