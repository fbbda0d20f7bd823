/**
 * A read in the driver, as Spark asks for it: of a batch or a stream, which columns, which tasks; Python plans them.
 * Read {@link io.sparklog.read.LogScanBuilder} first, then LogScan.
 */
package io.sparklog.read;
