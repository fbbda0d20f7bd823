/**
 * The columns of record batches, from and to bytes of Arrow; knows no log and no store. Read
 * {@link io.sparklog.arrow.Decoder} first: no byte is used before it is checked. To write, GrowingColumn and Encoder.
 */
package io.sparklog.arrow;
