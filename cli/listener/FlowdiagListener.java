import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.Method;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.TreeMap;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Pattern;

import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryProgressEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryStartedEvent;
import org.apache.spark.sql.streaming.StreamingQueryListener.QueryTerminatedEvent;
import org.apache.spark.streaming.StreamingContext;
import org.apache.spark.streaming.scheduler.BatchInfo;
import org.apache.spark.streaming.scheduler.OutputOperationInfo;
import org.apache.spark.streaming.scheduler.ReceiverInfo;
import org.apache.spark.streaming.scheduler.StreamInputInfo;
import org.apache.spark.streaming.scheduler.StreamingListenerBatchCompleted;
import org.apache.spark.streaming.scheduler.StreamingListenerBatchStarted;
import org.apache.spark.streaming.scheduler.StreamingListenerBatchSubmitted;
import org.apache.spark.streaming.scheduler.StreamingListenerOutputOperationCompleted;
import org.apache.spark.streaming.scheduler.StreamingListenerOutputOperationStarted;
import org.apache.spark.streaming.scheduler.StreamingListenerReceiverError;
import org.apache.spark.streaming.scheduler.StreamingListenerReceiverStarted;
import org.apache.spark.streaming.scheduler.StreamingListenerReceiverStopped;
import org.apache.spark.streaming.scheduler.StreamingListenerStreamingStarted;

/**
 * Writes the streaming events of a Spark application to a file, one JSON object per line, so that
 * {@code flowdiag rate} can read them later. It requires only Spark 3.0 or later:
 *
 * <pre>
 * spark-submit --jars FlowdiagListener.jar
 *   --conf spark.extraListeners=FlowdiagListener
 *   --conf spark.flowdiag.listener.path=/var/log/my-app/ ...
 * </pre>
 *
 * The path is on the driver's host. It is a file, or a folder (an existing folder, or a name ending
 * with a slash); in a folder, the file is named after the application. Further settings:
 * {@code spark.flowdiag.listener.maxBytes} (64000000) is the size at which the file is moved to
 * {@code <path>.1}, {@code spark.flowdiag.listener.keep} (4) is the number of moved files to keep.
 * The listener never fails or slows down the application: events that cannot be written in time are
 * dropped and counted in the file.
 *
 * <p>docs/listener.md of flowdiag describes the lines.
 */
public class FlowdiagListener extends SparkListener {
  private static final int SCHEMA = 1;
  private static final int QUEUE_EVENTS = 10_000;
  private static final int LONGEST_FAILURE = 4_000;
  private static final int LONGEST_CALL_SITE = 200; // the frames nearest to Spark
  private static final int LONGEST_DESCRIPTION = 20_000; // Kafka: a line per topic and partition
  private static final long RETRY_MILLIS = 10_000; // after a failed write
  private static final long CLOSE_MILLIS = 5_000;
  private static final Pattern JAVA_FRAME =
      Pattern.compile("\\s+(at |\\.\\.\\. \\d+ (more|common)).*");
  private static final Pattern PYSPARK_FRAME =
      Pattern.compile("\\s+File \"[^\"]*/(pyspark|py4j)[^\"]*\", line \\d.*");

  /** The options in the header; other options may be secrets and are left out. */
  private static final String[] CONFIGURATION = {
    "spark.cores.max",
    "spark.default.parallelism",
    "spark.driver.memory",
    "spark.dynamicAllocation.enabled",
    "spark.dynamicAllocation.maxExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.locality.wait",
    "spark.master",
    "spark.scheduler.mode",
    "spark.speculation",
    "spark.sql.adaptive.enabled",
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.asyncLogPurge.enabled",
    "spark.sql.streaming.fileSink.log.compactInterval",
    "spark.sql.streaming.fileSource.log.compactInterval",
    "spark.sql.streaming.maxBatchesToRetainInMemory",
    "spark.sql.streaming.metricsEnabled",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.noDataMicroBatches.enabled",
    "spark.sql.streaming.noDataProgressEventInterval",
    "spark.sql.streaming.numRecentProgressUpdates",
    "spark.sql.streaming.pollingDelay",
    "spark.sql.streaming.realTimeMode.minBatchDuration",
    "spark.sql.streaming.stateStore.maintenanceInterval",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    "spark.sql.streaming.stateStore.rocksdb.compactOnCommit",
    "spark.streaming.backpressure.enabled",
    "spark.streaming.backpressure.initialRate",
    "spark.streaming.backpressure.pid.derived",
    "spark.streaming.backpressure.pid.integral",
    "spark.streaming.backpressure.pid.minRate",
    "spark.streaming.backpressure.pid.proportional",
    "spark.streaming.backpressure.rateEstimator",
    "spark.streaming.blockInterval",
    "spark.streaming.blockQueueSize",
    "spark.streaming.clock",
    "spark.streaming.concurrentJobs",
    "spark.streaming.driver.writeAheadLog.allowBatching",
    "spark.streaming.driver.writeAheadLog.batchingTimeout",
    "spark.streaming.dynamicAllocation.enabled",
    "spark.streaming.dynamicAllocation.maxExecutors",
    "spark.streaming.dynamicAllocation.minExecutors",
    "spark.streaming.dynamicAllocation.scalingDownRatio",
    "spark.streaming.dynamicAllocation.scalingInterval",
    "spark.streaming.dynamicAllocation.scalingUpRatio",
    "spark.streaming.gracefulStopTimeout",
    "spark.streaming.kafka.consumer.poll.ms",
    "spark.streaming.kafka.maxRatePerPartition",
    "spark.streaming.kafka.minRatePerPartition",
    "spark.streaming.receiver.maxRate",
    "spark.streaming.receiver.writeAheadLog.enable",
    "spark.streaming.receiverRestartDelay",
    "spark.streaming.stopGracefullyOnShutdown",
    "spark.streaming.ui.retainedBatches",
    "spark.streaming.unpersist",
    "spark.submit.deployMode",
    "spark.task.cpus",
    "spark.task.maxFailures",
  };

  private final SparkConf configuration;
  private final BlockingQueue<Object[]> events = new ArrayBlockingQueue<>(QUEUE_EVENTS);
  private final AtomicLong lost = new AtomicLong();
  private final AtomicLong lostNow = new AtomicLong(); // since the last "dropped" line
  private final long maxBytes;
  private final int keep;
  private final Thread thread;
  private volatile boolean closed;
  private volatile String applicationId;
  private volatile String applicationName;
  private volatile long startTime = -1;

  // Used only by the writer's thread.
  private Path path;
  private OutputStream file;
  private long written;
  private int files;
  private long retryAt;
  private Long batchInterval;

  /** Spark calls this constructor with the application's configuration. */
  public FlowdiagListener(SparkConf configuration) {
    this.configuration = configuration;
    maxBytes = number("spark.flowdiag.listener.maxBytes", 64_000_000);
    keep = (int) number("spark.flowdiag.listener.keep", 4);
    applicationName = configuration.get("spark.app.name", null);
    thread = new Thread(this::run, "flowdiag-listener");
    thread.setDaemon(true);
    thread.start();
  }

  private long number(String key, long otherwise) {
    try {
      return Long.parseLong(configuration.get(key, Long.toString(otherwise)).trim());
    } catch (NumberFormatException error) {
      complain(key + " is not a number: " + error.getMessage());
      return otherwise;
    }
  }

  @Override
  public void onApplicationStart(SparkListenerApplicationStart event) {
    applicationName = event.appName();
    startTime = event.time();
    applicationId = event.appId().isDefined() ? event.appId().get() : null;
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    Object wanted = event;
    // The wrapper of a StreamingContext's events is private to Spark.
    if (event.getClass().getName().endsWith("$WrappedStreamingListenerEvent")) {
      try {
        Method method = event.getClass().getMethod("streamingListenerEvent");
        method.setAccessible(true);
        wanted = method.invoke(event);
      } catch (ReflectiveOperationException | RuntimeException error) {
        lose();
        return;
      }
    } else if (!(event instanceof StreamingQueryListener.Event)) {
      return;
    }
    if (!closed && !events.offer(new Object[] {wanted, System.currentTimeMillis()})) {
      lose();
    }
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd event) {
    if (closed) {
      return;
    }
    closed = true;
    try {
      if (events.offer(new Object[0], CLOSE_MILLIS, TimeUnit.MILLISECONDS)) {
        thread.join(CLOSE_MILLIS);
      }
    } catch (InterruptedException error) {
      Thread.currentThread().interrupt();
    }
  }

  private void lose() {
    lost.incrementAndGet();
    lostNow.incrementAndGet();
  }

  // Contents of the events. Everything below runs in the writer's thread.

  private Json read(Object event, long seen) {
    Json json = new Json();
    if (event instanceof StreamingListenerBatchSubmitted) {
      json.kind("batch_submitted", seen);
      batch(json, ((StreamingListenerBatchSubmitted) event).batchInfo());
    } else if (event instanceof StreamingListenerBatchStarted) {
      json.kind("batch_started", seen);
      batch(json, ((StreamingListenerBatchStarted) event).batchInfo());
    } else if (event instanceof StreamingListenerBatchCompleted) {
      json.kind("batch_completed", seen);
      batch(json, ((StreamingListenerBatchCompleted) event).batchInfo());
    } else if (event instanceof StreamingListenerOutputOperationStarted) {
      json.kind("output_operation_started", seen);
      ofBatch(json, ((StreamingListenerOutputOperationStarted) event).outputOperationInfo());
    } else if (event instanceof StreamingListenerOutputOperationCompleted) {
      json.kind("output_operation_completed", seen);
      ofBatch(json, ((StreamingListenerOutputOperationCompleted) event).outputOperationInfo());
    } else if (event instanceof StreamingListenerReceiverStarted) {
      json.kind("receiver_started", seen);
      receiver(json, ((StreamingListenerReceiverStarted) event).receiverInfo());
    } else if (event instanceof StreamingListenerReceiverError) {
      json.kind("receiver_error", seen);
      receiver(json, ((StreamingListenerReceiverError) event).receiverInfo());
    } else if (event instanceof StreamingListenerReceiverStopped) {
      json.kind("receiver_stopped", seen);
      receiver(json, ((StreamingListenerReceiverStopped) event).receiverInfo());
    } else if (event instanceof StreamingListenerStreamingStarted) {
      json.kind("streaming_started", seen);
      json.put("start_time", ((StreamingListenerStreamingStarted) event).time());
      json.put("batch_interval_ms", batchInterval);
    } else if (event instanceof QueryProgressEvent) {
      json.kind("query_progress", seen);
      json.raw("progress", ((QueryProgressEvent) event).progress().json());
    } else if (event instanceof QueryStartedEvent) {
      QueryStartedEvent one = (QueryStartedEvent) event;
      json.kind("query_started", seen).put("id", one.id()).put("run_id", one.runId());
      json.put("name", one.name()).put("timestamp", one.timestamp());
    } else if (event instanceof QueryTerminatedEvent) {
      QueryTerminatedEvent one = (QueryTerminatedEvent) event;
      json.kind("query_terminated", seen).put("id", one.id()).put("run_id", one.runId());
      json.put("exception", failure(orNull(one.exception())));
      json.put("error_class", optional(one, "errorClassOnException"));
    } else if (event.getClass().getSimpleName().equals("QueryIdleEvent")) { // 3.5 and later
      json.kind("query_idle", seen).put("id", optional(event, "id"));
      json.put("run_id", optional(event, "runId")).put("timestamp", optional(event, "timestamp"));
    } else {
      return null; // an event of a later Spark version
    }
    return json;
  }

  private static void batch(Json json, BatchInfo info) {
    json.put("batch_time", info.batchTime().milliseconds());
    json.put("submission_time", info.submissionTime());
    json.put("processing_start_time", orNull(info.processingStartTime()));
    json.put("processing_end_time", orNull(info.processingEndTime()));
    json.put("scheduling_delay", orNull(info.schedulingDelay()));
    json.put("processing_delay", orNull(info.processingDelay()));
    json.put("total_delay", orNull(info.totalDelay()));
    json.put("num_records", info.numRecords());
    List<String> streams = new ArrayList<>();
    for (Object one : sorted(info.streamIdToInputInfo()).values()) {
      StreamInputInfo input = (StreamInputInfo) one;
      Json stream = new Json().put("stream_id", input.inputStreamId());
      stream.put("num_records", input.numRecords());
      String description = orNull(input.metadataDescription());
      streams.add(stream.put("description", cut(description, LONGEST_DESCRIPTION)).toString());
    }
    json.raw("streams", streams.toString());
    List<String> operations = new ArrayList<>();
    for (Object one : sorted(info.outputOperationInfos()).values()) {
      Json operation = new Json();
      operation(operation, (OutputOperationInfo) one);
      operations.add(operation.toString());
    }
    json.raw("output_operations", operations.toString());
  }

  private static void ofBatch(Json json, OutputOperationInfo info) {
    operation(json.put("batch_time", info.batchTime().milliseconds()), info);
  }

  private static void operation(Json json, OutputOperationInfo info) {
    json.put("id", info.id()).put("name", info.name());
    json.put("description", cut(info.description(), LONGEST_CALL_SITE));
    json.put("start_time", orNull(info.startTime())).put("end_time", orNull(info.endTime()));
    json.put("failure_reason", failure(orNull(info.failureReason())));
  }

  private static void receiver(Json json, ReceiverInfo info) {
    json.put("stream_id", info.streamId()).put("name", info.name()).put("active", info.active());
    json.put("location", info.location()).put("executor_id", info.executorId());
    json.put("last_error_message", failure(info.lastErrorMessage()));
    json.put("last_error", failure(info.lastError()));
    json.put("last_error_time", info.lastErrorTime() < 0 ? null : (Object) info.lastErrorTime());
  }

  @SuppressWarnings("unchecked")
  private static <T> T orNull(scala.Option<?> option) {
    return option.isDefined() ? (T) option.get() : null;
  }

  private static TreeMap<Object, Object> sorted(scala.collection.Map<?, ?> map) {
    TreeMap<Object, Object> result = new TreeMap<>();
    scala.collection.Iterator<?> entries = map.iterator();
    while (entries.hasNext()) {
      scala.Tuple2<?, ?> entry = (scala.Tuple2<?, ?>) entries.next();
      result.put(entry._1(), entry._2());
    }
    return result;
  }

  /** Returns the result of a method that only later versions have; null if it does not exist. */
  private static Object optional(Object event, String method) {
    try {
      Object value = event.getClass().getMethod(method).invoke(event);
      return value instanceof scala.Option ? orNull((scala.Option<?>) value) : value;
    } catch (ReflectiveOperationException | RuntimeException error) {
      return null;
    }
  }

  private static String cut(String text, int longest) {
    return text == null || text.length() <= longest ? text : text.substring(0, longest - 1) + "…";
  }

  /**
   * Returns a failure without the stack frames of Java and PySpark. A long text is cut in the
   * middle, because the cause may be its first or its last line.
   */
  private static String failure(String text) {
    if (text == null || text.isEmpty()) {
      return null;
    }
    StringBuilder kept = new StringBuilder();
    boolean inside = false; // within the source lines of a removed frame
    boolean first = true;
    for (String line : text.split("\\R")) {
      if (inside && line.startsWith("    ")) {
        continue;
      }
      inside = PYSPARK_FRAME.matcher(line).matches();
      if (!inside && !JAVA_FRAME.matcher(line).matches()) {
        kept.append(first ? "" : "\n").append(line);
        first = false;
      }
    }
    if (kept.length() <= LONGEST_FAILURE) {
      return kept.toString();
    }
    int half = LONGEST_FAILURE / 2;
    return kept.substring(0, half) + "\n…\n" + kept.substring(kept.length() - half + 3);
  }

  // Writing.

  private void run() {
    while (true) {
      Object[] taken;
      try {
        taken = events.take();
      } catch (InterruptedException error) {
        return;
      }
      if (taken.length == 0) {
        break;
      }
      long seen = (Long) taken[1];
      try {
        if (file == null && files == 0) {
          knowBatchInterval(taken[0]);
        }
        Json json = read(taken[0], seen);
        if (json != null) {
          write(json.toString());
        }
      } catch (Exception | LinkageError error) {
        Json json = new Json().kind("unreadable", seen);
        json.put("of", taken[0].getClass().getSimpleName());
        write(json.put("error", cut(error.toString(), 300)).toString());
      }
    }
    if (files > 0) {
      Json json = new Json().kind("closed", System.currentTimeMillis());
      write(json.put("dropped", lost.get()).toString());
      try {
        if (file != null) {
          file.close();
        }
      } catch (IOException error) {
        complain("cannot close " + path + ": " + error);
      }
    }
  }

  /** Waits for the active context, which may become active only after its first events. */
  private void knowBatchInterval(Object first) throws InterruptedException {
    boolean dstream = first.getClass().getSimpleName().startsWith("StreamingListener");
    for (int attempt = 0; dstream && batchInterval == null && attempt < 50 && !closed; attempt++) {
      scala.Option<StreamingContext> active = StreamingContext.getActive();
      if (active.isDefined()) {
        batchInterval = active.get().graph().batchDuration().milliseconds();
      } else {
        Thread.sleep(100);
      }
    }
  }

  private void write(String line) {
    if (System.currentTimeMillis() < retryAt) {
      lose();
      return;
    }
    long dropped = 0;
    try {
      if (file == null || written >= maxBytes) {
        open();
      }
      dropped = lostNow.getAndSet(0);
      if (dropped > 0) {
        Json json = new Json().kind("dropped", System.currentTimeMillis());
        line(json.put("count", dropped).put("total", lost.get()).toString());
        dropped = 0;
      }
      line(line);
    } catch (IOException | RuntimeException error) { // the disk is full, or the folder is gone
      lostNow.addAndGet(dropped);
      lose();
      if (retryAt == 0) {
        complain("cannot write " + path + ": " + error);
      }
      retryAt = System.currentTimeMillis() + RETRY_MILLIS;
      file = null;
    }
  }

  private void line(String json) throws IOException {
    byte[] bytes = (json + "\n").getBytes(StandardCharsets.UTF_8);
    file.write(bytes);
    file.flush();
    written += bytes.length;
  }

  /** Starts a file with a header, after moving an existing file. */
  private void open() throws IOException {
    if (file != null) {
      file.close();
      file = null;
    }
    if (path == null) {
      path = place(configuration.get("spark.flowdiag.listener.path", "./"));
    }
    Files.createDirectories(path.getParent());
    if (Files.exists(path) && Files.size(path) > 0) {
      for (int number = keep; number > 1; number--) {
        if (Files.exists(moved(number - 1))) {
          Files.move(moved(number - 1), moved(number), StandardCopyOption.REPLACE_EXISTING);
        }
      }
      if (keep > 0) {
        Files.move(path, moved(1), StandardCopyOption.REPLACE_EXISTING);
      }
    }
    file = Files.newOutputStream(path);
    written = 0;
    files++;
    Json header = new Json().put("flowdiag_listener", SCHEMA);
    header.kind("header", System.currentTimeMillis()).put("file", files).put("writer", "java");
    header.put("dropped", lost.get());
    header.put("application_id", id()).put("application_name", applicationName);
    header.put("spark_version", org.apache.spark.package$.MODULE$.SPARK_VERSION());
    header.put("start_time", startTime < 0 ? null : (Object) startTime);
    header.put("batch_interval_ms", batchInterval);
    Json values = new Json();
    for (String key : CONFIGURATION) {
      String value = configuration.get(key, null);
      if (value != null) {
        values.put(key, value);
      }
    }
    line(header.raw("configuration", values.toString()).toString());
  }

  private String id() {
    return applicationId != null ? applicationId : configuration.get("spark.app.id", null);
  }

  private Path moved(int number) {
    return path.resolveSibling(path.getFileName() + "." + number);
  }

  private Path place(String text) {
    Path named = text.startsWith("file:") ? Paths.get(URI.create(text)) : Paths.get(text);
    boolean ends = text.endsWith("/") || text.endsWith(File.separator);
    boolean folder = ends || Files.isDirectory(named);
    String id = id() == null ? "application" : id();
    Path whole = folder ? named.resolve("flowdiag-" + id + ".jsonl") : named;
    return whole.toAbsolutePath().normalize();
  }

  private static void complain(String text) {
    System.err.println("flowdiag_listener: " + text);
  }

  /** Builds a JSON object. */
  private static final class Json {
    private final StringBuilder text = new StringBuilder("{");

    Json kind(String kind, long seen) {
      return put("event", kind).put("time", seen);
    }

    Json put(String key, Object value) {
      if (value == null || value instanceof Number || value instanceof Boolean) {
        return raw(key, String.valueOf(value));
      }
      return raw(key, quote(value.toString()));
    }

    Json raw(String key, String json) {
      text.append(text.length() == 1 ? "" : ",").append(quote(key)).append(':').append(json);
      return this;
    }

    private static String quote(String value) {
      StringBuilder quoted = new StringBuilder(value.length() + 2).append('"');
      for (int i = 0; i < value.length(); i++) {
        char c = value.charAt(i);
        if (c == '"' || c == '\\') {
          quoted.append('\\').append(c);
        } else if (c == '\n') {
          quoted.append("\\n");
        } else if (c < ' ' || c > '~') {
          quoted.append(String.format(Locale.ROOT, "\\u%04x", (int) c));
        } else {
          quoted.append(c);
        }
      }
      return quoted.append('"').toString();
    }

    @Override
    public String toString() {
      return text + "}";
    }
  }
}
