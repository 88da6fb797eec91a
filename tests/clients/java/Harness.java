import com.mongodb.MongoException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;

/** One line for each check: {@code ok NAME}, or {@code FAILED NAME: why}. */
final class Harness {
    private Harness() {}

    interface Check {
        void run() throws Exception;
    }

    static void equal(Object found, Object wanted) {
        if (!Objects.equals(found, wanted)) {
            throw new IllegalStateException("found " + found + ", wanted " + wanted);
        }
    }

    /** Calls what must fail with this code; returns the error. */
    static MongoException fails(int code, Callable<?> action) throws Exception {
        Object result;
        try {
            result = action.call();
        } catch (MongoException error) {
            // What fails before a command runs wraps the server's answer.
            MongoException cause = error.getCause() instanceof MongoException inner ? inner : error;
            if (error.getCode() != code && cause.getCode() != code) {
                throw new IllegalStateException("failed with " + error.getCode() + " and not " + code, error);
            }
            return error;
        }
        throw new IllegalStateException("succeeded with " + result + " and should have failed with " + code);
    }

    /** Runs the checks; true if all passed. */
    static boolean run(LinkedHashMap<String, Check> checks) {
        boolean passed = !checks.isEmpty();
        for (Map.Entry<String, Check> one : checks.entrySet()) {
            try {
                one.getValue().run();
                System.out.println("ok " + one.getKey());
            } catch (Exception error) {
                passed = false;
                String text = (error + (error.getCause() == null ? "" : " " + error.getCause())).replaceAll("\\s+", " ");
                System.out.println("FAILED " + one.getKey() + ": " + where(error) + " "
                        + text.substring(0, Math.min(600, text.length())));
            }
        }
        return passed;
    }

    private static String where(Exception error) {
        for (StackTraceElement one : error.getStackTrace()) {
            if (one.getFileName() != null && one.getFileName().matches("(Documents|Queries|Access|Sets|SetWrites|Watched)\\.java")) {
                return one.getFileName() + ":" + one.getLineNumber();
            }
        }
        return "";
    }
}
