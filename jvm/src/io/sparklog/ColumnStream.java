package io.sparklog;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReportsSourceMetrics;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import scala.Product;

/**
 * A stream of the Python data source whose micro-batches are read by Java. Offsets, limits, progress and commits stay
 * Python's, so this has all interfaces that Spark's own wrapper of a Python stream has, which differ between versions.
 * And it has the metrics of Spark's Kafka source, which Spark does not take from Python.
 */
final class ColumnStream implements InvocationHandler {
  private static final int PICKLED = 1; // of Spark's PythonInputPartition(index, pickled partition)

  private final MicroBatchStream python;
  private final Map<String, String> options;
  private final String[] columns;

  private ColumnStream(MicroBatchStream python, Map<String, String> options, String[] columns) {
    this.python = python;
    this.options = options;
    this.columns = columns;
  }

  static MicroBatchStream over(MicroBatchStream python, Map<String, String> options, String[] columns) {
    List<Class<?>> interfaces = new ArrayList<>();
    for (Class<?> of = python.getClass(); of != null; of = of.getSuperclass()) {
      interfaces.addAll(List.of(of.getInterfaces()));
    }
    interfaces.add(ReportsSourceMetrics.class);
    Class<?>[] distinct = interfaces.stream().distinct().toArray(Class<?>[]::new);
    ClassLoader loader = ColumnStream.class.getClassLoader();
    return (MicroBatchStream) Proxy.newProxyInstance(loader, distinct, new ColumnStream(python, options, columns));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (method.getName().equals("createReaderFactory")) {
      return new ColumnReaderFactory(columns, new Bounds());
    }
    if (method.getName().equals("metrics")) {
      Offset newest = python instanceof SupportsAdmissionControl source ? source.reportLatestOffset() : null;
      return OffsetsBehind.metrics((Offset) ((Optional<?>) arguments[0]).orElse(null), newest);
    }
    Object answer;
    try {
      answer = method.invoke(python, arguments);
    } catch (InvocationTargetException error) {
      throw error.getCause();
    }
    return method.getName().equals("planInputPartitions") ? tasks((InputPartition[]) answer) : answer;
  }

  private InputPartition[] tasks(InputPartition[] planned) {
    ObjectNode request = Planner.request("stream_tasks", options);
    ArrayNode pickled = request.putArray("partitions");
    for (InputPartition partition : planned) {
      pickled.add((byte[]) ((Product) partition).productElement(PICKLED));
    }
    return PlannedRead.ask(request).toArray(InputPartition[]::new);
  }
}
