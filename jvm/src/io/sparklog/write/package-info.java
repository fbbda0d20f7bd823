/**
 * A write in the driver, as Spark asks for it: of a batch or a micro-batch; Python plans and commits it.
 * Read {@link io.sparklog.write.LogWrite} first.
 */
package io.sparklog.write;
