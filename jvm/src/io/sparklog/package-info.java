/**
 * Reads and writes the records of a log for Spark, planned by Python ({@code sparklog/spark/planner}). Read {@link
 * io.sparklog.SparklogSource} first; docs/paths.md follows a read and a write.
 *
 * <ul>
 *   <li>Entry and tables: SparklogSource, LogTable, PythonSource, Columns; LogCatalog, TopicTable, StagedTopic
 *   <li>A read in the driver: LogScanBuilder, LogScan, RecordBounds, PlannedRead, TaskToRead, ReadTask, ColumnReaderFactory;
 *       of a stream: LogStream, OffsetsBehind
 *   <li>A read in a task: TaskReader, TaskScan, RangeReader, ReadRange, Holder, PythonReader, ReadMetrics; of a slice:
 *       SliceReader, IndexCache, ObjectIndex, BodyReads, ObjectBytes; of a batch: Decoder, Layout, Lz4Frame, LogVector,
 *       Records, DamagedException
 *   <li>A write in the driver: LogWriteBuilder, LogWrite, LogBatchWrite, LogStreamWrite, RowColumns, WritePlan,
 *       TaskWriterFactory, TaskMessage
 *   <li>A write in a task: TaskWriter, SkippingWriter, TopicWriter, Murmur2, TaskObjects, TaskWritten; of an object:
 *       ObjectsWriter, OpenObject, WrittenIndex, IpcFile; of a batch: PendingRows, LogRecord, Header, GrowingBytes, GrowingColumn, Encoder,
 *       EncodedBatch; to stores: StoreLanes, ObjectStore, ObjectUpload, LocalFolder, HadoopFolder
 *   <li>Both: Planner, MicroBatchProperties, Interruption, SparklogException
 * </ul>
 */
package io.sparklog;
