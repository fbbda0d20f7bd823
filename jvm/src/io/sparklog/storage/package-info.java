/**
 * The bytes of objects, on disks and by Hadoop: {@link io.sparklog.storage.ObjectBytes} for readers; for writers, which need
 * an object as a whole or not at all, {@link io.sparklog.storage.ObjectStore} and its two folders. Read ObjectStore first.
 */
package io.sparklog.storage;
